"""The parts a recipe is made of; each knows as little of the others as it can."""
