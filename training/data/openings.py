"""How requests begin: words that are no imperatives, and verbs that may stand for one another."""

from __future__ import annotations

from random import Random

# Requests that begin with these words are not imperatives, so "please" and "could you" are not put before them.
NO_VERB = frozenset(
    """a about accommodation affordable after against air alarms alcohol all altitude am among amounts an another
    any aperture appointment are as at automatically bacteria balance batch battle before berth between
    bigger bike binomial: bitterness blood boat born bottling bought braking break-even breathing browsers
    budget bulky by calories came can car cards carnot centripetal chance charger cheaper child chmod chunks
    coffee columns common compound concerts conditions consequences cooking correlation costs could
    countdown court crash! crowdfunding curl current customers damage dates day days dear definition delay
    derivative did difference differences dinner directions dishwasher distance docker does dose drift drip
    election elevation eligibility elo: energy enough entry equalizer: every everybody everyone everything
    everywhere expected facts failing fermenter fields: figures finally fine first flights for forecast form
    free frequency from front gain gas gate genotypes gift given glossary grams gravity guests had has
    headlines heard hearing help, here homework hours how hungry! i i'm if image in inflation inhabitants
    inside instead intensity interval into inventory: invitation irrigation is it json just key kubectl last
    later, lawsuit leasing length lights like logs looking loudness lr ls magnification: mails matrix may
    mean median medicine medium meeting melting membership middle milliseconds minimum, mkdir moles monthly
    months moon more moving music must my navigation: nearest needed never new next no nobody not notes
    notice number of on once one only others our out output oven pace packing pages paid paragraph parking
    part passage password passwords peaks people period pet ph photosynthesis pitch playback polling
    polynomial population positions price prices priming probability production profile program pulley:
    quality queries questions raffle: rating recipe refactor: refraction region renovation resistor result
    results rise rivers robot, rolling room roster runtime: saving screen second-hand sessions shoe shoes:
    should signal significance size ski slide slope slot soil some somebody someone something somewhere
    spoken staff standard standings statistics street stripes student sugar sunrise surprised table target
    temperature that the theatre then there these they this those ticket tide time times to today today:
    tonight too tour traffic trains two-factor under units until up users values vector vet visa visitors
    volume volunteer volunteered voter was wc we weather weighted weights: welcome went were what when
    whenever where wherever which who whoever whose why wikipedia will wine with within word would x yield
    you z-score""".split()  # noqa: SIM905
)

# verb: others that mean the same before any object
SAME = """delete: remove, erase, get rid of, wipe
remove: get rid of, take away
show: display, bring up
display: show, bring up
list: enumerate, show
create: make, set up, put together
find: look for
calculate: work out, figure out, compute, determine
compute: calculate, work out, figure out, determine
determine: find out, work out, establish
convert: change, transform
start: begin
begin: start
launch: start, kick off
stop: halt, end, put an end to
halt: stop
book: reserve, arrange, secure
reserve: book, secure, set aside
schedule: plan, arrange
plan: schedule, arrange, work out
arrange: organise, set up
cancel: call off, scrap
buy: purchase, get
purchase: buy, get
check: verify, examine, look into, inspect
verify: check, examine
close: shut
shut: close
update: change, modify, revise
change: modify, alter
modify: change, alter
retrieve: get, fetch
merge: combine, unite, join
combine: merge, join
split: divide, break up
divide: split
move: shift, transfer
copy: duplicate, make a copy of
install: set up
reply to: respond to, answer
answer: reply to, respond to
estimate: assess, approximate, gauge
summarize: sum up, condense, give the gist of
summarise: sum up, condense, give the gist of
save: store
store: save
record: log, note, write down, put on record
log: record, note, write down
register: sign up, enrol, enter
submit: hand in, send in
approve: accept, agree to
accept: agree to, approve
reject: refuse, turn down, decline
refuse: reject, turn down
decline: turn down, refuse
assign: give, hand over
raise: increase, put up
increase: raise, step up
reduce: lower, cut, bring down
lower: reduce, bring down
generate: produce, create, make
produce: generate, make
validate: check, verify
recommend: suggest, propose
suggest: recommend, propose
turn on: switch on
turn off: switch off
switch on: turn on
switch off: turn off
look up: find
search for: look for, find
pick: choose, select
choose: pick, select
select: choose, pick
replace: substitute, exchange
explain: clarify, make clear
describe: tell me about, characterise
repair: fix, mend
hide: conceal
reveal: show, uncover
inform: tell, notify
notify: tell, inform
alert: warn
protect: safeguard, secure
publish: release, put out
release: publish, put out
postpone: put off, delay
prolong: extend
extend: prolong, lengthen
shorten: cut, trim
enlarge: make bigger
archive: put away, file away
restore: bring back, recover
recover: bring back, restore
upload: put up, send up
download: pull down, fetch
sort: order, put in order
examine: inspect, look at, check
inspect: examine, look at
analyse: examine, study
analyze: examine, study
track: follow, keep an eye on
monitor: watch, keep an eye on
watch: keep an eye on
request: ask for
ask for: request
rent: hire
hire: rent
invoice: bill
bill: invoice
dispatch: send off
deactivate: switch off, disable
activate: switch on, enable
enable: activate, switch on
disable: deactivate, switch off
prepare: get ready, draw up
draft: draw up, sketch
count: tally
measure: gauge
revoke: withdraw, take back
withdraw: take out
erase: delete, wipe"""
SYNONYMS = {
    line.partition(": ")[0]: tuple(line.partition(": ")[2].split(", "))
    for line in SAME.splitlines()
}
# After these a verb has another meaning ("book me", "get rid", "check in", "order by").
ELSE = frozenset(
    """me us it in out on off up down over for to by with back at into from that whether if how where what how
    again myself everything""".split()  # noqa: SIM905
)


def reword(template: str, rng: Random) -> str:
    """Begin an imperative with another verb of the same meaning, if there is one."""
    words = template.split(" ", 3)
    for size in (2, 1):
        verb = " ".join(words[:size])
        if verb in SYNONYMS and len(words) > size and words[size] not in ELSE:
            return f"{rng.choice(SYNONYMS[verb])}{template[len(verb) :]}"
    return template
