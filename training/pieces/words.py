"""Word pools for slots: written by hand, from many languages, plus invented words.

An invented word cannot be recalled, only copied, so every pool is diluted with some.
"""

from __future__ import annotations

from random import Random

FIRST = ["Ada", "Bob", "Alice", "Carlos", "Chloé", "Dmitri", "Elif", "Fatima", "Giulia", "Hiroshi", "Ingrid", "Jamal", "Kwame", "Lena", "Mateo", "Noor", "Olga", "Priya", "Quentin", "Rosa", "Sven", "Tariq", "Uma", "Viktor", "Wanjiru", "Xiomara", "Yusuf", "Zoë", "Aisha", "Björn", "Chen", "Diego", "Emma", "François", "Grace", "Hassan", "Isabella", "Jürgen", "Katarzyna", "Liam", "Mei", "Nikolai", "Oscar", "Paula", "Rahul", "Sofía", "Thabo", "Valentina", "William", "Yuki", "Łukasz", "Ángel", "Søren", "Siobhán", "Ravi", "Nadia", "Tom", "Mary", "John", "Peter", "Anna", "Max", "Sara", "Ben", "Lucy", "Kim", "Leo", "Mia", "Nora", "Sam", "Tina", "Omar", "Ivan", "Jin", "Amara", "Kofi", "Leila", "Marco", "Nina", "Otto", "Pia", "Ruth", "Simon", "Vera", "张伟", "田中", "Ольга"]
LAST = ["Smith", "García", "Müller", "Nguyen", "O'Brien", "Kowalski", "Ivanova", "Tanaka", "Okafor", "Johansson", "Rossi", "Dubois", "Silva", "Haddad", "Kim", "Patel", "Andersen", "Novák", "Papadopoulos", "van", "Dijk", "McDonald", "D'Angelo", "Yılmaz", "Becker", "Brown", "Lopez", "Schmidt", "Park", "Singh", "Cohen", "Larsen", "Moreau", "Costa", "Weber", "Hughes", "Diaz", "Fischer", "Murphy", "Sato"]
CITIES = """Paris|London|Tokyo|Berlin|Madrid|Rome|Oslo|Nairobi|Lagos|Cairo|Mumbai|Delhi|Seoul|Beijing
Sydney|Toronto|Chicago|Boston|Denver|Austin|Seattle|Miami|Lima|Bogotá|São Paulo|Buenos Aires|Zürich
Kraków|Malmö|Reykjavík|Tel Aviv|Istanbul|Athens|Lisbon|Porto|Vienna|Prague|Budapest|Dublin|Glasgow
New York|San Diego|Los Angeles|Cape Town|Hong Kong|Kuala Lumpur|Mexico City|Rio de Janeiro|Accra
Hanoi|Manila|Jakarta|Bangkok|Dakar|Tunis|Doha|Dubai|Tehran|Baku|Kyiv|Riga|Helsinki|Tallinn|Geneva
St. Louis|Aix-en-Provence|Saint-Étienne|Köln|東京|Lyon|Marseille|Nice|Bern|Gdańsk|Ulm|Bath|York""".replace(
    "\n", "|"
).split("|")
COUNTRIES = """France|Germany|Japan|Brazil|Kenya|India|Canada|Norway|Peru|Egypt|Spain|Italy|Chile|Vietnam
Nigeria|Mexico|Poland|Sweden|Turkey|Iceland|South Korea|New Zealand|South Africa|Portugal|Greece
Côte d'Ivoire|Argentina|Australia|China|Finland|Ireland|Morocco|Thailand|Ukraine|Ghana""".replace(
    "\n", "|"
).split("|")
NOUNS = ["river", "window", "garden", "engine", "bottle", "letter", "mountain", "shadow", "planet", "teacher", "camera", "island", "bridge", "forest", "market", "pencil", "rocket", "silver", "dragon", "coffee", "winter", "summer", "ocean", "button", "basket", "candle", "desert", "feather", "guitar", "hammer", "jacket", "kitchen", "ladder", "mirror", "needle", "orange", "pepper", "quilt", "ribbon", "saddle", "ticket", "umbrella", "violin", "whistle", "yellow", "zebra", "apple", "banana", "report", "invoice", "project", "budget", "meeting", "server", "database", "password", "customer", "order", "product", "review", "message", "folder", "picture", "video", "song", "lamp", "door", "sensor", "battery", "filter", "table", "chair", "dog", "cat", "house", "tree", "book", "car", "phone", "road", "cloud", "star", "moon", "sun", "fire", "water", "stone", "paper", "glass", "box", "key", "lock", "map", "boat", "train", "plane", "bird", "fish", "horse", "flower", "bread", "cheese"]
VERBS = ["find", "make", "send", "open", "close", "start", "stop", "move", "copy", "delete", "create", "update", "list", "show", "get", "set", "check", "count", "sort", "merge", "split", "join", "draw", "paint", "wash", "clean", "cook", "bake", "plant", "grow", "build", "break", "fix", "paint", "ride", "drive", "walk", "run", "jump", "swim", "climb", "carry", "push", "pull", "lift", "drop", "throw", "catch", "read", "write", "print", "scan", "save", "load", "export", "import", "convert", "compare", "measure", "weigh", "mix", "cut", "fold", "wrap", "pack", "ship", "order", "rent", "sell", "buy"]
ADJECTIVES = ["red", "green", "blue", "small", "large", "old", "new", "quick", "slow", "bright", "dark", "soft", "hard", "warm", "cold", "dry", "wet", "sweet", "sour", "loud", "quiet", "heavy", "light", "clean", "dirty", "round", "flat", "sharp", "smooth", "rough", "happy", "sad", "brave", "calm", "eager", "gentle", "kind", "proud", "silly", "wise", "young", "ancient", "broken", "golden", "hidden", "lonely", "lucky", "modern", "narrow", "open", "purple", "silent", "tiny", "urgent", "vivid", "weekly", "wild", "final", "monthly", "internal", "public", "daily", "secret"]
SMALL = ["the", "a", "of", "in", "on", "for", "with", "and", "to", "is", "was", "not", "very", "from", "at", "by", "it", "that", "this", "my", "our", "your", "we", "you", "they", "will", "can", "has", "have", "are", "be", "but", "or", "so", "if", "when", "then", "now", "here", "there", "all", "some", "more", "less"]
PRODUCTS = """wireless mouse|running shoes|coffee beans|USB-C cable|desk lamp|yoga mat|water bottle|backpack
mechanical keyboard|olive oil|phone case|notebook|headphones|raincoat|AA batteries|green tea|toothpaste
rice cooker|board game|umbrella|socks|dog food|sunscreen|tent|bike helmet|chocolate bars|standing desk
eggs|milk|bananas|whole wheat bread|oat milk|tomatoes|jeans|T-shirt|gaming laptop|monitor""".replace(
    "\n", "|"
).split("|")
FOODS = """pizza|sushi|tacos|pad thai|ramen|burgers|lasagna|curry|falafel|paella|pho|salad|tomato soup|crêpes
dumplings|chicken tikka masala|pancakes|risotto|kimchi stew|couscous|banana bread|apple pie|gnocchi
ceviche|goulash|hummus|omelette|vegan chili|ratatouille|mac and cheese""".replace("\n", "|").split(
    "|"
)
COLORS = ["red", "blue", "green", "yellow", "purple", "orange", "black", "white", "pink", "teal", "navy", "magenta", "turquoise", "crimson", "gold", "silver", "beige", "indigo", "violet", "lime"]
LANGUAGES = ["French", "German", "Spanish", "Japanese", "Italian", "Korean", "Swahili", "Polish", "Arabic", "Hindi", "Portuguese", "Turkish", "Dutch", "Finnish", "Greek", "Mandarin", "Vietnamese", "Swedish", "Czech", "Welsh"]
COMPANIES = """Acme|Globex|Initech|Umbrella Corp|Northwind|Contoso|Blue Harbor|Apple|Tesla|Siemens|Toyota|Nestlé
Stark Industries|Wayne Enterprises|Hooli|Lindqvist & Sons|Fabrikam|Orbital Labs|Green Leaf GmbH""".replace(
    "\n", "|"
).split("|")
SYLLABLES = ["ba", "be", "bi", "bo", "bu", "da", "de", "di", "do", "du", "fa", "fe", "fi", "fo", "ga", "ge", "go", "gu", "ha", "he", "hi", "ho", "ja", "jo", "ka", "ke", "ki", "ko", "ku", "la", "le", "li", "lo", "lu", "ma", "me", "mi", "mo", "mu", "na", "ne", "ni", "no", "nu", "pa", "pe", "pi", "po", "pu", "ra", "re", "ri", "ro", "ru", "sa", "se", "si", "so", "su", "ta", "te", "ti", "to", "tu", "va", "ve", "vi", "vo", "wa", "we", "wi", "xa", "ya", "yo", "za", "ze", "zi", "zo", "bra", "cre", "dri", "flo", "gra", "kle", "plo", "sta", "tri", "shu", "cho", "thi", "quo"]
ENDS = ["", "n", "r", "s", "l", "x", "t", "k", "m", "th", "ck", "nd", "sh", "ng"]
OBJECT_IDS = ["INV", "ORD", "TCK", "SKU", "REF", "A", "PRJ", "BUG", "CASE", "EMP", "TX", "C"]


def invented(rng: Random) -> str:
    """Make up a pronounceable word."""
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 3))) + rng.choice(ENDS)


def any_word(rng: Random) -> str:
    """A word from any pool, sometimes invented."""
    pool = rng.choice((NOUNS, NOUNS, VERBS, ADJECTIVES, None))
    return rng.choice(pool) if pool else invented(rng)
