"""A home in three languages, and requests that no sentence template of Home Assistant has: written for this benchmark, used for nothing else.

Each request has the intent and slots that Home Assistant would be asked for; one that the home cannot do has none.
"""

from __future__ import annotations

from typing import Any

#: Rooms and devices by language: (domain, device class, name by language, room).
ROOMS = {
    "kitchen": ("Kitchen", "Küche", "Cuisine"),
    "bedroom": ("Bedroom", "Schlafzimmer", "Chambre"),
    "living": ("Living Room", "Wohnzimmer", "Salon"),
    "bath": ("Bathroom", "Badezimmer", "Salle de bain"),
    "office": ("Office", "Büro", "Bureau"),
    "hall": ("Hallway", "Flur", "Couloir"),
}
DEVICES = (
    ("light", None, ("Ceiling Light", "Deckenlampe", "Plafonnier"), "kitchen"),
    ("light", None, ("Reading Lamp", "Leselampe", "Lampe de lecture"), "bedroom"),
    ("light", None, ("Floor Lamp", "Stehlampe", "Lampadaire"), "living"),
    ("light", None, ("Mirror Light", "Spiegelleuchte", "Applique miroir"), "bath"),
    ("switch", None, ("Coffee Machine", "Kaffeemaschine", "Machine à café"), "kitchen"),
    ("switch", None, ("Heater", "Heizlüfter", "Radiateur soufflant"), "bath"),
    ("fan", None, ("Desk Fan", "Tischventilator", "Ventilateur de bureau"), "office"),
    ("cover", "curtain", ("Big Curtain", "Großer Vorhang", "Grand rideau"), "living"),
    ("cover", "blind", ("Office Blind", "Bürojalousie", "Store du bureau"), "office"),
    ("cover", "garage", ("Garage Door", "Garagentor", "Porte de garage"), "hall"),
    ("lock", None, ("Front Door", "Haustür", "Porte d'entrée"), "hall"),
    ("lock", None, ("Cellar Door", "Kellertür", "Porte de la cave"), "hall"),
    ("climate", None, ("Thermostat", "Thermostat", "Thermostat"), "living"),
    ("media_player", None, ("Radio", "Radio", "Radio"), "kitchen"),
    ("media_player", None, ("TV", "Fernseher", "Télé"), "living"),
    ("vacuum", None, ("Dusty", "Dusty", "Dusty"), "hall"),
    ("sensor", None, ("Outdoor Humidity", "Außenfeuchte", "Humidité extérieure"), None),
    (
        "binary_sensor",
        "window",
        ("Bathroom Window", "Badfenster", "Fenêtre de la salle de bain"),
        "bath",
    ),
    ("todo", None, ("Shopping List", "Einkaufsliste", "Liste de courses"), None),
    ("weather", None, ("Home", "Zuhause", "Maison"), None),
)
LANGUAGES = ("en", "de", "fr")

Request = tuple[str, str | None, dict[str, Any]]

#: Requests by language.
REQUESTS: dict[str, tuple[Request, ...]] = {
    "en": (
        ("could you get the coffee machine going", "HassTurnOn", {"name": "Coffee Machine"}),
        ("fire up the coffee machine for me", "HassTurnOn", {"name": "Coffee Machine"}),
        ("I'd like the floor lamp on now", "HassTurnOn", {"name": "Floor Lamp"}),
        ("the reading lamp can go off", "HassTurnOff", {"name": "Reading Lamp"}),
        ("kill the ceiling light would you", "HassTurnOff", {"name": "Ceiling Light"}),
        ("we no longer need the heater, shut it down", "HassTurnOff", {"name": "Heater"}),
        (
            "please have the lights in the hallway switched on",
            "HassTurnOn",
            {"area": "Hallway", "domain": "light"},
        ),
        (
            "bring some light into the kitchen, switch the lights on",
            "HassTurnOn",
            {"area": "Kitchen", "domain": "light"},
        ),
        (
            "I am leaving the office so lights off there",
            "HassTurnOff",
            {"area": "Office", "domain": "light"},
        ),
        (
            "put every light in the bedroom off please, good night",
            "HassTurnOff",
            {"area": "Bedroom", "domain": "light"},
        ),
        (
            "mirror light at about 40 percent would be nice",
            "HassLightSet",
            {"name": "Mirror Light", "brightness": 40},
        ),
        (
            "I want the reading lamp dimmed down to 15 percent",
            "HassLightSet",
            {"name": "Reading Lamp", "brightness": 15},
        ),
        (
            "would you make the floor lamp blue for the party",
            "HassLightSet",
            {"name": "Floor Lamp", "color": "blue"},
        ),
        (
            "living room in red light please",
            "HassLightSet",
            {"area": "Living Room", "color": "red"},
        ),
        (
            "draw the big curtain, the sun is blinding me, close it",
            "HassTurnOff",
            {"name": "Big Curtain"},
        ),
        ("let some sun in and open the big curtain", "HassTurnOn", {"name": "Big Curtain"}),
        ("would you mind lowering the office blind", "HassTurnOff", {"name": "Office Blind"}),
        (
            "leave the office blind half open, at 50 percent",
            "HassSetPosition",
            {"name": "Office Blind", "position": 50},
        ),
        ("I forgot to close the garage door, do it for me", "HassTurnOff", {"name": "Garage Door"}),
        ("make sure that the front door gets locked", "HassTurnOn", {"name": "Front Door"}),
        (
            "my guests are here, unlock the front door for them",
            "HassTurnOff",
            {"name": "Front Door"},
        ),
        ("kindly lock up the cellar door for the night", "HassTurnOn", {"name": "Cellar Door"}),
        (
            "heat the living room to 22 degrees please",
            "HassClimateSetTemperature",
            {"area": "Living Room", "temperature": 22},
        ),
        (
            "I would feel better with the thermostat at 19 and a half degrees",
            "HassClimateSetTemperature",
            {"name": "Thermostat", "temperature": 19.5},
        ),
        (
            "how warm might it be in the living room",
            "HassClimateGetTemperature",
            {"area": "Living Room"},
        ),
        (
            "the radio is too loud, turn the volume of the radio down",
            "HassSetVolumeRelative",
            {"name": "Radio", "volume_step": "down"},
        ),
        (
            "I can't hear the TV, make it louder",
            "HassSetVolumeRelative",
            {"name": "TV", "volume_step": "up"},
        ),
        (
            "would you put the TV volume at 30 percent",
            "HassSetVolume",
            {"name": "TV", "volume_level": 30},
        ),
        ("hold on, pause what is playing on the TV", "HassMediaPause", {"name": "TV"}),
        ("I don't like this song, skip it on the radio", "HassMediaNext", {"name": "Radio"}),
        ("send Dusty out to clean", "HassVacuumStart", {"name": "Dusty"}),
        ("Dusty should go home to its base now", "HassVacuumReturnToBase", {"name": "Dusty"}),
        (
            "would you check whether the front door is locked",
            "HassGetState",
            {"name": "Front Door", "state": "locked"},
        ),
        (
            "did anybody leave the bathroom window open",
            "HassGetState",
            {"name": "Bathroom Window", "state": "open"},
        ),
        ("what does the outdoor humidity look like", "HassGetState", {"name": "Outdoor Humidity"}),
        (
            "is the coffee machine still on by any chance",
            "HassGetState",
            {"name": "Coffee Machine", "state": "on"},
        ),
        ("give me a shout in 10 minutes, set a timer", "HassStartTimer", {"minutes": 10}),
        (
            "I need a timer that rings after an hour and a half",
            "HassStartTimer",
            {"hours": 1, "minutes": 30},
        ),
        ("tack 5 more minutes onto the timer", "HassIncreaseTimer", {"minutes": 5}),
        ("forget about that timer, cancel it", "HassCancelTimer", {}),
        (
            "we are out of milk, put it on the shopping list",
            "HassListAddItem",
            {"name": "Shopping List", "item": "milk"},
        ),
        (
            "remember to buy olive oil, shopping list",
            "HassListAddItem",
            {"name": "Shopping List", "item": "olive oil"},
        ),
        ("do I need an umbrella, what will the weather be", "HassGetWeather", {}),
        ("have you got the time", "HassGetCurrentTime", {}),
        (
            "desk fan to 70 percent it is hot in here",
            "HassFanSetSpeed",
            {"name": "Desk Fan", "percentage": 70},
        ),
        ("a little air please, start the desk fan", "HassTurnOn", {"name": "Desk Fan"}),
        ("order a large pizza with mushrooms", None, {}),
        ("who won the election in 1960", None, {}),
        ("book me a flight to Oslo", None, {}),
        ("what is the square root of 144", None, {}),
        ("send an e-mail to my boss that I am ill", None, {}),
        ("translate good morning into Spanish", None, {}),
        ("tell me a joke about penguins", None, {}),
        ("turn on the sauna", None, {}),
        ("open the roof window in the attic", None, {}),
        ("how many calories does a banana have", None, {}),
        ("transfer 50 euros to my sister", None, {}),
        ("play chess with me", None, {}),
        ("start the dishwasher", None, {}),
        ("where did I park my car", None, {}),
    ),
    "de": (
        (
            "Könntest du die Kaffeemaschine in Gang bringen, also einschalten",
            "HassTurnOn",
            {"name": "Kaffeemaschine"},
        ),
        ("Ich hätte gern die Stehlampe an", "HassTurnOn", {"name": "Stehlampe"}),
        ("Die Leselampe darf jetzt ausgehen", "HassTurnOff", {"name": "Leselampe"}),
        ("Sei so gut und knips die Deckenlampe aus", "HassTurnOff", {"name": "Deckenlampe"}),
        (
            "Wir brauchen den Heizlüfter nicht mehr, ausschalten bitte",
            "HassTurnOff",
            {"name": "Heizlüfter"},
        ),
        (
            "Es soll im Flur Licht brennen, mach es an",
            "HassTurnOn",
            {"area": "Flur", "domain": "light"},
        ),
        (
            "Ich verlasse das Büro, also Licht aus",
            "HassTurnOff",
            {"area": "Büro", "domain": "light"},
        ),
        (
            "Spiegelleuchte so auf 40 Prozent wäre schön",
            "HassLightSet",
            {"name": "Spiegelleuchte", "brightness": 40},
        ),
        (
            "Für die Party hätte ich die Stehlampe gern in Blau",
            "HassLightSet",
            {"name": "Stehlampe", "color": "blue"},
        ),
        (
            "Die Sonne blendet, mach bitte den großen Vorhang zu",
            "HassTurnOff",
            {"name": "Großer Vorhang"},
        ),
        (
            "Lass die Bürojalousie auf halber Höhe, 50 Prozent",
            "HassSetPosition",
            {"name": "Bürojalousie", "position": 50},
        ),
        ("Sorg dafür, dass die Haustür abgeschlossen wird", "HassTurnOn", {"name": "Haustür"}),
        ("Meine Gäste sind da, schließ ihnen die Haustür auf", "HassTurnOff", {"name": "Haustür"}),
        (
            "Heiz das Wohnzimmer bitte auf 22 Grad",
            "HassClimateSetTemperature",
            {"area": "Wohnzimmer", "temperature": 22},
        ),
        ("Wie warm mag es im Wohnzimmer sein", "HassClimateGetTemperature", {"area": "Wohnzimmer"}),
        (
            "Das Radio ist zu laut, mach es leiser",
            "HassSetVolumeRelative",
            {"name": "Radio", "volume_step": "down"},
        ),
        ("Warte kurz, halte den Fernseher an, Pause", "HassMediaPause", {"name": "Fernseher"}),
        ("Dusty soll jetzt putzen gehen", "HassVacuumStart", {"name": "Dusty"}),
        (
            "Ist die Haustür eigentlich abgeschlossen",
            "HassGetState",
            {"name": "Haustür", "state": "locked"},
        ),
        (
            "Hat jemand das Badfenster offen gelassen",
            "HassGetState",
            {"name": "Badfenster", "state": "open"},
        ),
        ("Sag mir in 10 Minuten Bescheid, stell einen Timer", "HassStartTimer", {"minutes": 10}),
        ("Vergiss den Timer, brich ihn ab", "HassCancelTimer", {}),
        (
            "Die Milch ist alle, setz Milch auf die Einkaufsliste",
            "HassListAddItem",
            {"name": "Einkaufsliste", "item": "Milch"},
        ),
        ("Brauche ich einen Schirm, wie wird das Wetter", "HassGetWeather", {}),
        ("Bestell eine große Pizza mit Pilzen", None, {}),
        ("Wer hat 1960 die Wahl gewonnen", None, {}),
        ("Buch mir einen Flug nach Oslo", None, {}),
        ("Überweise meiner Schwester 50 Euro", None, {}),
        ("Erzähl mir einen Witz über Pinguine", None, {}),
        ("Schalte die Sauna ein", None, {}),
    ),
    "fr": (
        (
            "Tu pourrais mettre en route la machine à café, l'allumer",
            "HassTurnOn",
            {"name": "Machine à café"},
        ),
        ("J'aimerais bien que le lampadaire soit allumé", "HassTurnOn", {"name": "Lampadaire"}),
        (
            "On peut éteindre la lampe de lecture maintenant",
            "HassTurnOff",
            {"name": "Lampe de lecture"},
        ),
        ("Sois gentil, coupe le plafonnier", "HassTurnOff", {"name": "Plafonnier"}),
        (
            "Plus besoin du radiateur soufflant, éteins-le",
            "HassTurnOff",
            {"name": "Radiateur soufflant"},
        ),
        (
            "Il fait noir dans le couloir, allume la lumière",
            "HassTurnOn",
            {"area": "Couloir", "domain": "light"},
        ),
        (
            "Je quitte le bureau, éteins la lumière",
            "HassTurnOff",
            {"area": "Bureau", "domain": "light"},
        ),
        (
            "Le lampadaire à environ 40 pour cent serait parfait",
            "HassLightSet",
            {"name": "Lampadaire", "brightness": 40},
        ),
        (
            "Pour la fête je voudrais le lampadaire en bleu",
            "HassLightSet",
            {"name": "Lampadaire", "color": "blue"},
        ),
        ("Le soleil m'éblouit, ferme le grand rideau", "HassTurnOff", {"name": "Grand rideau"}),
        (
            "Laisse le store du bureau à moitié, à 50 pour cent",
            "HassSetPosition",
            {"name": "Store du bureau", "position": 50},
        ),
        (
            "Fais en sorte que la porte d'entrée soit verrouillée",
            "HassTurnOn",
            {"name": "Porte d'entrée"},
        ),
        (
            "Mes invités arrivent, déverrouille-leur la porte d'entrée",
            "HassTurnOff",
            {"name": "Porte d'entrée"},
        ),
        (
            "Chauffe le salon à 22 degrés s'il te plaît",
            "HassClimateSetTemperature",
            {"area": "Salon", "temperature": 22},
        ),
        (
            "Il peut bien faire combien de degrés dans le salon",
            "HassClimateGetTemperature",
            {"area": "Salon"},
        ),
        (
            "La radio est trop forte, baisse le volume de la radio",
            "HassSetVolumeRelative",
            {"name": "Radio", "volume_step": "down"},
        ),
        ("Attends, mets en pause ce qui passe à la télé", "HassMediaPause", {"name": "Télé"}),
        ("Envoie Dusty faire le ménage", "HassVacuumStart", {"name": "Dusty"}),
        (
            "Est-ce que par hasard la porte d'entrée est verrouillée",
            "HassGetState",
            {"name": "Porte d'entrée", "state": "locked"},
        ),
        ("Préviens-moi dans 10 minutes, lance un minuteur", "HassStartTimer", {"minutes": 10}),
        ("Oublie ce minuteur, annule-le", "HassCancelTimer", {}),
        (
            "Il n'y a plus de lait, mets lait sur la liste de courses",
            "HassListAddItem",
            {"name": "Liste de courses", "item": "lait"},
        ),
        ("Me faut-il un parapluie, quel temps va-t-il faire", "HassGetWeather", {}),
        ("Commande une grande pizza aux champignons", None, {}),
        ("Qui a gagné l'élection de 1960", None, {}),
        ("Réserve-moi un vol pour Oslo", None, {}),
        ("Fais un virement de 50 euros à ma sœur", None, {}),
        ("Raconte-moi une blague sur les pingouins", None, {}),
        ("Allume le sauna", None, {}),
    ),
}
