"""Made-up functions whose parameters differ in kind, so that the form of a value shows where it belongs."""

from __future__ import annotations

from random import Random

from training.data.generators import word_pools as w
from training.data.generators.choices import OBJECTS, VERBS
from training.data.tasks import TaskFunction, TaskParameter

# names | type | generator | how it is said when nothing names it | about
FIELDS = """email,mail,contact,email_address,send_to|string|email|at {},({}),mail {},contact {},to {}|E-mail address
phone,phone_number,tel,contact_number,mobile|string|phone|phone {},call {},({}),on {}|Phone number
domain,host,common_name,site,hostname|string|domain|for {},on {},of {}|Domain name
url,link,address,website,endpoint|string|url|at {},from {},see {},link {}|Web address
person,name,customer,owner,assignee,user|string|person|for {},by {},with {},it's {}|Name of a person
city,location,place,town,where|string|city|in {},near {},around {}|City
country,nation,market|string|country|in {},for {}|Country
company,organization,client,vendor|string|company|at {},for {},from {}|Company
path,file,source,file_path,input|string|path|from {},in {},file {},using {}|Path of a file
folder,directory,target_folder,destination|string|folder|into {},in {},under {}|Folder
filename,output,attachment,document|string|filename|as {},with {},file {}|File name
date,day,due_date,on_date,start_date|string|isodate|on {},by {},due {},dated {}|Date (YYYY-MM-DD)
time,at,start_time,clock_time|string|hhmm|at {},from {} on|Time (HH:MM)
id,code,reference,order_id,ticket,number|string|id|number {},ref {},no. {},{}|Identifier
amount,price,sum,cost,total,value|number|money|for {},over {},worth {},costing {}|Amount of money
percent,discount,share,rate,percentage|number|percent|with {},at {},minus {}|Percentage
count,quantity,copies,people,how_many|integer|many(2,30)|{} times,{} of them,for {} people,x {}|How many
year,since,model_year|integer|year(1950,2035)|of {},from {},in {}|Year
language,lang,target_language|string|language|in {},into {}|Language
color,colour,paint|string|color|in {},painted {}|Color
version,release,tag|string|version|version {},at {},in {}|Version
message,note,comment,text,body|string|sentence|saying {},note {},with the words {}|Text
title,subject,headline,label|string|title|called {},titled {},named {}|Title
ip,ip_address,server_ip|string|ipv4|at {},from {},on {}|IP address
airport,iata,airport_code|string|airport|at {},from {},via {}|Airport code
ticker,symbol,stock|string|ticker|of {},in {}|Stock symbol
currency,currency_code|string|currency|in {},paid in {}|Currency code
postcode,zip,postal_code|string|postcode|in {},zip {},{}|Postal code
temperature,degrees,celsius|number|temp(-20,90)|at {},to {}|Temperature
minutes,duration,length_minutes|integer|mins(5,120)|for {},lasting {}|Length in minutes
branch,git_branch,ref|string|branch|on {},branch {},from {}|Branch
regex,pattern,expression|string|regex|matching {},with pattern {}|Regular expression
tags,labels,keywords|[string]|list slug 2 3|tagged {},with {}|Tags
members,attendees,guests|[string]|list first 2 4|with {},together with {}|People
scores,values,measurements|[number]|list small 2 5|values {},with {},readings {}|Measured values""".splitlines()
NEAR = (
    ("from_{}", "from {}", "to_{}", "to {}"),
    ("old_{}", "instead of {}", "new_{}", "use {}"),
    ("min_{}", "at least {}", "max_{}", "at most {}"),
    ("start_{}", "starting with {}", "end_{}", "ending with {}"),
    ("sender_{}", "from {}", "receiver_{}", "for {}"),
    ("first_{}", "first {}", "second_{}", "then {}"),
)
# An unknown city looks like an unknown person: the second of them is always named.
NAMES = ("person", "city", "country", "company", "title", "sentence")
ROLES = tuple(role.split("_")[0] + "_" for near in NEAR for role in (near[0], near[2]))
TWICE = (
    "city",
    "date",
    "time",
    "amount",
    "person",
    "email",
    "path",
    "id",
    "year",
    "version",
    "airport",
)


def base_of(parameter: TaskParameter) -> str:
    """What a field is without its role: `date` for `start_date`."""
    key = parameter.key
    return key.partition("_")[2] if key.startswith(ROLES) else key


def draw_fields(rng: Random) -> list[tuple[TaskParameter, list[str]]]:
    """Draw two to five fields of different kinds, now and then one kind twice with two roles."""
    chosen = rng.sample(FIELDS, rng.choice((2, 2, 3, 3, 4, 5)))
    fields: list[tuple[TaskParameter, list[str]]] = []
    for line in chosen:
        names, kind, generator, said, about = line.split("|")
        base = names.split(",")[0]
        optional = bool(fields) and rng.random() < 0.35
        if base in TWICE and rng.random() < 0.35:
            one, said_one, two, said_two = rng.choice(NEAR)
            for role, phrase in ((one, said_one), (two, said_two)):
                key = role.format(base)
                text = f"{role.split('_')[0].capitalize()} {about[0].lower()}{about[1:]}"
                fields.append((TaskParameter((key,), kind, generator, (text,), False), [phrase]))
            continue
        key, *others = rng.sample(names.split(","), min(2, len(names.split(","))))
        fields.append(
            (TaskParameter((key, *others), kind, generator, (about,), optional), said.split(","))
        )
    taken: set[str] = set()
    kept = []
    for parameter, said in fields:
        if not taken.intersection(parameter.names):
            kept.append((parameter, said))
            taken.update(parameter.names)
    return kept


def draw_record(rng: Random) -> TaskFunction:
    """Draw a function of fields that requests give without their names, in any order."""
    verb, noun = rng.choice(VERBS), rng.choice((*OBJECTS, w.invented(rng)))
    fields = draw_fields(rng)
    article = "an" if noun[0] in "aeiou" else "a"
    abouts = (
        f"{verb.capitalize()} {article} {noun}.",
        f"{verb.capitalize()} {article} {noun} with {', '.join(p.key.replace('_', ' ') for p, _ in fields)}.",
    )
    function = TaskFunction(
        noun, (f"{verb}_{noun}", f"{noun}_{verb}"), abouts, [p for p, _ in fields], topic=noun
    )
    for _ in range(5):
        function.requests.append(phrase_record(verb, noun, fields, rng))
    return function


def phrase_record(
    verb: str, noun: str, fields: list[tuple[TaskParameter, list[str]]], rng: Random
) -> str:
    """One request: with small words, with the names of the fields, or with nothing but the values."""
    how = rng.choice(("small words", "small words", "names", "values"))
    order = rng.sample(fields, len(fields))
    # Two values of one kind stay together ("from X to Y"), in either order.
    home: dict[str, int] = {}
    for place, (parameter, _) in enumerate(order):
        home.setdefault(base_of(parameter), place)
    order.sort(key=lambda field: home[base_of(field[0])])
    order.sort(key=lambda field: field[0].optional if how == "values" else 0)
    parts = []
    found_name = False
    for parameter, said in order:
        phrase = rng.choice(said)
        alike = parameter.generator in NAMES
        if how == "names" or (alike and found_name and not parameter.key.startswith(ROLES)):
            phrase = parameter.key.replace("_", " ") + " {}"
        elif how == "values" and not parameter.key.startswith(ROLES):
            phrase = "{}"
        found_name = found_name or alike
        joint = ", " if how == "values" and parts else rng.choice((" ", " ", ", "))
        part = joint + phrase.replace("{}", f"{{{parameter.key}}}")
        parts.append(f"[{part}]" if parameter.optional else part)
    if how == "values":
        return f"~{noun}:" + "".join(parts).replace(
            ", ", " ", 1 if parts[0].startswith(", ") else 0
        )
    article = "an" if noun[0] in "aeiou" else "a"
    thing = rng.choice((f"{article} {noun}", f"the {noun}"))
    lead = rng.choice(("", "", "~we need to ", "I want to "))
    return f"{lead}{verb} {thing}" + "".join(parts)
