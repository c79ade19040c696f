"""Made-up formulas: quantities of one type, distinguished by the words beside the numbers."""

from __future__ import annotations

from random import Random

from training.data.tasks import TaskFunction, TaskParameter

# name, short names, units as worded (the first is the documented one), generator
QUANTITIES = """mass|m,weight|kg,kilograms,grams|small(1,500)
velocity|v,speed|m/s,meters per second,km/h|small(1,300)
initial_velocity|v0,u,initial_speed,start_velocity|m/s,meters per second|small(0,100)
final_velocity|vf,final_speed,end_velocity|m/s,meters per second|small(0,200)
acceleration|a|m/s^2,meters per second squared,m/s²|dec(0.1,30,2)
time|t,duration,elapsed_time|seconds,s,minutes,hours|small(1,300)
distance|d,displacement|meters,m,km,kilometers|small(1,900)
height|h|meters,m,cm,feet|small(1,400)
length|l|meters,m,cm,inches|small(1,200)
width|w|meters,m,cm,inches|small(1,200)
depth|dp|meters,m,feet|small(1,90)
radius|r|meters,cm,m|small(1,100)
diameter|dia|meters,cm,mm|small(1,100)
angle|theta|degrees|small(1,180)
force|f|newtons,N|small(1,2000)
pressure|p|pascals,Pa,kPa,bar|small(1,900)
temperature|temp|degrees Celsius,°C,kelvin,K|small(1,400)
initial_temperature|t1,start_temperature|°C,degrees Celsius|small(0,90)
final_temperature|t2,end_temperature|°C,degrees Celsius|small(1,300)
volume|vol|liters,cubic meters,m^3,mL|small(1,500)
initial_volume|v1|liters,L|small(1,90)
final_volume|v2|liters,L|small(1,90)
density|rho|kg/m^3,kilograms per cubic meter,g/cm^3|dec(0.5,8000,1)
area|surface|square meters,m^2,square feet|small(1,900)
charge|q|coulombs,C|dec(0.01,9,2)
current|i,amperage|amperes,A,amps|dec(0.1,40,1)
voltage|u_volts|volts,V|small(1,400)
resistance|ohms|ohms,Ω|small(1,900)
capacitance|c|farads,microfarads|dec(0.1,90,1)
power|watts|watts,W,kW|small(1,5000)
energy|joules|joules,J,kWh|small(1,9000)
frequency|hz|hertz,Hz|small(1,900)
wavelength|lam|meters,nm,nanometers|small(1,900)
heat_capacity|specific_heat|J/kgK|small(100,4200)
spring_constant|k|N/m,newtons per meter|small(1,900)
friction_coefficient|mu||dec(0.01,1,2)
efficiency|eff|%,percent|int(1,99)
moles|n|mol,moles|dec(0.1,20,2)
concentration|molarity|mol/L,M|dec(0.01,9,2)
half_life|t_half|years,days,hours|small(1,900)
initial_amount|n0,start_amount|grams,mg|small(1,900)
principal|loan_amount,initial_investment|dollars,$|dollars(1000,900000)
interest_rate|annual_rate|%,percent|rate(0.5,15)
years|term,period_years|years|int(1,40)
months|term_months|months|int(1,240)
monthly_deposit|contribution|dollars,$|int(10,3000)
price|unit_price,price_per_unit|dollars,$|dec(1,900,2)
cost|unit_cost,cost_per_unit|dollars,$|dec(1,500,2)
quantity|units_sold,count|units,pieces|int(1,5000)
fixed_costs|overhead|dollars,$|dollars(1000,400000)
revenue|sales,turnover|dollars,$|dollars(1000,900000)
net_income|profit|dollars,$|dollars(1000,900000)
total_assets|assets|dollars,$|dollars(1000,5000000)
total_liabilities|liabilities,debt|dollars,$|dollars(1000,3000000)
equity|shareholder_equity|dollars,$|dollars(1000,3000000)
down_payment|deposit|dollars,$|dollars(1000,90000)
tax_rate|vat|%,percent|int(1,45)
discount|reduction|%,percent|int(1,80)
salary|annual_salary|dollars,$|dollars(20000,200000)
hours_worked|hours|hours|small(1,200)
hourly_wage|wage|dollars,$|dec(8,150,2)
population|inhabitants|people|int(100,900000)
growth_rate|rate_of_growth|%,percent|rate(0.1,12)
birth_rate|births|per thousand|dec(1,50,1)
death_rate|deaths|per thousand|dec(1,30,1)
sample_size|n_samples||int(2,5000)
successes|hits||int(0,100)
trials|attempts||int(1,200)
standard_deviation|sd,sigma||dec(0.1,90,2)
sample_mean|xbar||dec(0.1,500,2)
age|years_old|years|int(1,99)
body_height|stature|cm,centimeters|int(120,210)
body_weight|weight_kg|kg,kilograms|int(35,160)
heart_rate|pulse|bpm,beats per minute|int(40,190)
calories|kcal|kcal,calories|int(50,4000)
servings|portions|servings|int(1,40)
magnitude|mag||dec(0.1,9.9,1)
altitude|elevation|meters,m,feet|int(1,9000)
latitude|lat|degrees|dec(-89,89,3)
longitude|lon,lng|degrees|dec(-179,179,3)
wind_speed|wind|km/h,m/s|int(1,200)
humidity|rh|%,percent|int(1,100)
fuel_consumption|consumption|liters per 100 km|dec(2,20,1)
fuel_price|price_per_liter|dollars|dec(0.5,4,2)
level|lvl||int(1,99)
attack|attack_power||int(1,300)
defense|armor||int(1,300)
lower_bound|lower,minimum||small(0,49)
upper_bound|upper,maximum||small(50,900)
numerator|top_number||int(1,900)
denominator|bottom_number||int(1,900)
base|base_number||int(2,60)
exponent|power_of||int(0,20)
wins|games_won||int(0,80)
losses|games_lost||int(0,80)
draws|games_drawn||int(0,40)
points_scored|points||int(0,150)
tempo|bpm|bpm,beats per minute|int(40,220)
beats|beats_per_bar||int(2,12)""".splitlines()

RESULTS = """kinetic energy|stopping distance|flow rate|terminal speed|yield|final amount|break-even point|efficiency
drag|lift|pressure drop|heat loss|entropy change|torque|momentum|impulse|orbital period|escape velocity
field strength|flux|capacity|concentration|dilution|growth|decay|half-life|dose|clearance|margin|payout
amortization|return|ratio|liquidity|turnover|leverage|premium|penalty|bonus|score|rating|damage|odds
probability|variance|error|sample size|confidence|index|density|buoyancy|stress|strain|load|deflection
gain|attenuation|resonance|interference|refraction|magnification|exposure|brightness|distance|range
travel time|fuel need|cost|monthly payment|net worth|tax due|take-home pay|budget|savings|depreciation
runtime|battery life|data rate|latency|throughput|coverage|harvest|feed need|water need|paint need""".replace(
    "\n", "|"
).split("|")
OBJECTS = """an object|a car|a projectile|a gas|a wire|a circuit|a sample|a company|an investment|a loan|a population
a player|a team|a room|a tank|a pipe|a beam|a spring|a planet|a satellite|a cell|a solution|a patient
a portfolio|a product|a house|a field|a pump|a motor|a lens|a string|a wave|a trip|a battery""".replace(
    "\n", "|"
).split("|")
VERBS = ("calculate", "compute", "get", "find", "determine", "estimate", "calc", "evaluate")
DOMAINS = ("formulas", "physics", "calculator", "finance", "engineering", "science", "tools")
DEFAULTS = ("0", "1", "9.81", "10", "100", "20", "1.0", "0.5", "25")


def draw_quantities(rng: Random, count: int) -> list[tuple[str, list[str], list[str], str]]:
    """Draw quantities with different names, related ones (initial, final) often together."""
    rows = [QUANTITIES[rng.randrange(len(QUANTITIES))].split("|") for _ in range(count * 3)]
    start = rng.randrange(len(QUANTITIES))
    if rng.random() < 0.6:
        rows = [QUANTITIES[(start + i) % len(QUANTITIES)].split("|") for i in range(count)] + rows
    chosen: dict[str, tuple[str, list[str], list[str], str]] = {}
    for name, short, units, generator in rows:
        last = name.split("_")[-1]
        if any(last == other.split("_")[-1] and "_" not in name + other for other in chosen):
            continue
        chosen.setdefault(
            name, (name, short.split(","), [u for u in units.split(",") if u], generator)
        )
        if len(chosen) == count:
            break
    found = list(chosen.values())
    rng.shuffle(found)
    return found


def phrase_quantity(name: str, units: list[str], unit: str, rng: Random) -> str:
    """How a request names one quantity."""
    spoken = name.replace("_", " ")
    key = f"{{{name}}}"
    written = f"{key} {unit}".strip() if unit not in ("$", "%", "°C") else key
    if unit in ("%", "°C"):
        written = f"{key}{unit}"
    article = "an" if spoken[0] in "aeio" else "a"
    forms = [
        f"{article} {spoken} of {written}",
        f"{article} {spoken} of {written}",
        f"{spoken} {written}",
        f"{spoken} = {written}",
        f"the {spoken} is {written}",
        f"{spoken} of {written}",
        f"{spoken}: {written}",
    ]
    if units and "_" not in name:
        forms.append(f"{written} {spoken}")
        forms.append(f"{written} of {spoken}")
    return rng.choice(forms)


def draw_formula(rng: Random) -> TaskFunction:
    """A function of two to five quantities, with requests that state them in any order."""
    quantities = draw_quantities(rng, rng.choice((2, 2, 3, 3, 3, 4, 4, 5)))
    result, thing = rng.choice(RESULTS), rng.choice(OBJECTS)
    verb = rng.choice(VERBS)
    noun = result.replace(" ", "_").replace("-", "_")
    name = rng.choice((f"{verb}_{noun}", f"{verb}_{noun}", noun, f"{noun}_of_{thing.split()[-1]}"))
    abouts = (
        f"{verb.capitalize().replace('Calc', 'Calculate') if verb != 'calculate' else 'Calculate'} the {result} of {thing}.",
        f"Calculates the {result} of {thing} from {', '.join(q[0].replace('_', ' ') for q in quantities)}.",
        f"The {result} of {thing}",
    )
    parameters, units_said = [], {}
    for position, (key, short, units, generator) in enumerate(quantities):
        optional = position > 0 and rng.random() < 0.2
        spoken = key.replace("_", " ")
        documented = units[0] if units else ""
        inside = f" in {documented}" if documented and documented not in ("$", "%") else ""
        if documented == "%":
            inside = " in percent"
        about = [f"The {spoken} of {thing}{inside}.", f"{spoken.capitalize()}{inside}"]
        if optional:
            default = rng.choice(DEFAULTS)
            about = [f"{a.rstrip('.')}. Default is {default}." for a in about]
        names = (key, key, key, *short) if rng.random() < 0.5 else (key,)
        kind = "integer" if generator.startswith("int") and rng.random() < 0.6 else "number"
        parameters.append(TaskParameter(tuple(names), kind, generator, tuple(about), optional))
        said_already = generator.startswith(("rate", "dollars"))
        units_said[key] = "" if said_already else documented
    function = TaskFunction(rng.choice(DOMAINS), (name,), abouts, parameters, topic=result)
    for _ in range(4):
        function.requests.append(
            draw_template(parameters, quantities, units_said, result, thing, rng)
        )
    return function


def draw_template(
    parameters: list[TaskParameter],
    quantities: list[tuple[str, list[str], list[str], str]],
    units_said: dict[str, str],
    result: str,
    thing: str,
    rng: Random,
) -> str:
    """One request."""
    said = [
        q
        for q, p in zip(quantities, parameters, strict=True)
        if not p.optional or rng.random() < 0.5
    ]
    rng.shuffle(said)
    parts = [
        phrase_quantity(q[0], q[2], units_said[q[0]] if rng.random() < 0.75 else "", rng)
        for q in said
    ]
    joined = (
        ", ".join(parts[:-1]) + rng.choice((" and ", ", and ", ", ")) + parts[-1]
        if parts[1:]
        else parts[0]
    )
    if any(" is " in part for part in parts):
        given = rng.choice(("if ", "when ", "given that "))
        return rng.choice(
            (
                f"what is the {result} of {thing} {given}{joined}?",
                f"~{given}{joined}, what is the {result}?",
                f"(find|calculate|compute) the {result} {given}{joined}",
            )
        )
    return rng.choice(
        (
            f"(calculate|compute|find|work out|determine) the {result} of {thing} (with|given|for) {joined}",
            f"what is the {result} of {thing} with {joined}?",
            f"what's the {result} for {joined}?",
            f"~{thing} has {joined}. What is its {result}?",
            f"~given {joined}, (find|compute|give me) the {result}",
            f"~{result}: {joined}",
            f"I need the {result} for {joined}",
            f"~{joined}; {result}?",
            f"how (big|large|high) is the {result} of {thing} with {joined}?",
        )
    )
