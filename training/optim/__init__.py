"""How weights move: Muon for matrices and AdamW for the rest, the schedule of the rates, and several processes.

Processes train side by side and average their weights after every few steps (local SGD), because sharing every gradient
costs two cores more than it gains. Nothing here knows what the weights are of.
"""
