"""Made-up functions that do different things with one kind of thing, and what none of them does.

Functions of one domain share all their nouns, so only the verb tells which is meant, or that none is. A request
hardly ever says that verb: nobody archives a playlist, one puts it away for later. What may stand for a verb does not depend
on the thing, so every function of a list is drawn from one table of actions, and so is what fits none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from training.pieces.tasks import Function, Parameter, read_parameter

# verbs of names and descriptions | what is said; "~" begins what is no imperative, {x} is the thing |
# one more parameter, as task files write it, and {y} in all that is said
ACTIONS = """delete,remove,erase,discard|get rid of {x};throw {x} away;wipe {x};~I don't need {x} any more;~{x} can go;~nobody will miss {x}, away with it;bin {x};~{x} must disappear for good
create,add,make,new|set up {x};start a fresh one called {x};put together {x};~we need one more: {x};~there is no {x} yet, change that;~I'd like to have {x} from now on;bring {x} into being
archive,file,store|put {x} away for later;retire {x} without losing it;move {x} to the old ones;~I'm done with {x} but want to keep it;~{x} belongs into the cellar now;tidy {x} away without losing it
restore,recover,undelete|bring {x} back;~I threw {x} away by mistake;~I want {x} back from the bin;get {x} back, it was gone;~{x} should never have vanished, undo that
rename,retitle|call {x} {y} from now on;~{x} shall be known as {y};~{x} needs another name: {y};give {x} the name {y};~from today {x} is {y}|new_name string word : The name to give
duplicate,copy,clone|make a second one like {x};~I want {x} twice;~one {x} is not enough, I need the same again;reproduce {x};make a twin of {x}
share,give_access|let {y} see {x};~{y} should have a look at {x}, too;~{y} wants to use {x} with me;open {x} to {y};make {x} visible for {y}|person string person : Whom to share with
unshare,revoke_access|~{y} must not see {x} any longer;shut {y} out of {x};~{x} is no more any of {y}'s business;take {x} away from {y}'s eyes|person string person : Who loses access
lock,protect|make sure nobody touches {x};bolt {x};~nobody may change {x};~{x} has to stay as it is, keep hands off
unlock,open_up|let people change {x} again;~{x} is bolted, open it;remove the padlock from {x};~we can't get into {x}, let us in
print,print_out|put {x} on paper;~I need {x} on paper;run off {x} on the laser;~I want to hold {x} in my hands, black on white
show,get,view,read|let me see {x};bring up {x};pull up {x};~what does {x} look like?;~I'd like a look at {x}
export,save_as_file|give me {x} as a file;turn {x} into a file for other programs;~I want {x} in a format that another program reads
import,load|take {x} in from outside;bring {x} into the program;~{x} comes from another program, read it in;feed {x} in
upload|send {x} up to the server;copy {x} from here to the cloud;move {x} from this laptop to the server;~{x} should lie on the server
download|fetch {x} onto my machine;pull {x} down from the server;~I want {x} on this laptop when there is no net
sync,synchronise|make {x} the same on all my machines;bring both ends of {x} into step;~{x} differs between phone and laptop, make it match
back_up|make sure I don't lose {x} if the disk dies;put a spare of {x} somewhere safe;~in case of fire I want a second {x}
compress,pack|make {x} smaller on disk;squeeze {x};zip {x};~{x} takes too much room, shrink it
encrypt|make {x} unreadable for strangers;put {x} into cipher;scramble {x} with a key;~no spy shall be able to read {x}
pause,suspend|put {x} on hold;interrupt {x} for a while;give {x} a break;~{x} should wait a little;freeze {x} for now
resume,continue|let {x} go on;carry on with {x};~the break of {x} is over;~{x} has waited long enough;pick {x} up where it stopped
start,launch,run|get {x} going;kick off {x};set {x} in motion;fire up {x};~off we go with {x};~it's time for {x} to begin
stop,end,terminate|put an end to {x};bring {x} to a halt;~enough of {x};shut {x} down for good;~{x} has gone on long enough, finish it
restart,reboot|turn {x} off and on again;give {x} a kick, off and on;~{x} hangs, let it begin afresh;begin {x} over
schedule,plan|put {x} on for {y};~{x} is to take place on {y};set {x} down for {y};~I want {x} to happen {y}|day string day : When
postpone,delay|put {x} off until {y};~{x} won't work out before {y};push {x} back to {y};~not now, {x} can wait until {y}|until string day : Until when
cancel,call_off|~{x} isn't going to happen;~we won't go ahead with {x} after all;drop {x}, we changed our minds;scratch {x} from the plan
approve,accept|give {x} the green light;~{x} is fine with me;say yes to {x};~I agree to {x};wave {x} through
reject,decline|say no to {x};turn {x} down;~I don't agree to {x};~{x} won't do, send it back;~thumbs down for {x}
assign,delegate|let {y} take care of {x};~{x} is {y}'s job now;leave {x} to {y};~{y} shall deal with {x};put {y} in charge of {x}|person string person : Who takes it on
label,tag|stick {y} on {x};mark {x} as {y};~{x} belongs under {y};file {x} among {y}|label string word : The label
rate,review|give {x} {y} stars;~{x} deserves {y} stars;~{y} out of five for {x};~I'd give {x} a {y}|stars integer 1;2;3;4;5 : Stars, 1 to 5
comment,annotate|leave a remark on {x}: "{y}";write "{y}" below {x};~my two cents on {x}: "{y}"|text string phrase : What to write
report,flag|~{x} is against the rules, tell the moderators;complain about {x};blow the whistle on {x};~somebody in charge should look at {x}, it is offensive
follow,subscribe|keep me posted about {x};tell me whenever {x} has news;~I want to hear of everything new in {x};sign me up for {x}
unfollow,unsubscribe|~I don't want to hear of {x} any more;spare me the news of {x};take me off the list of {x};~no more mails about {x}
pin,favourite|keep {x} at the very top;put a star on {x};~{x} is one of my favourites;~I want to find {x} first
hide|make {x} invisible;~I don't want {x} to be seen;put {x} out of sight;~nobody needs to know that there is {x}
publish,release|let the whole world have {x};make {x} public;~{x} is ready for everybody;put {x} out;go live with {x}
merge,combine|make one out of {x} and {y};throw {x} and {y} together;unite {x} with {y};~{x} and {y} should be one|other string word : The other one
split,divide|make two out of {x};take {x} apart into halves;break {x} up;~{x} is too big, cut it in two
compare,diff|~how do {x} and {y} differ?;hold {x} against {y};~what is different between {x} and {y}?;put {x} next to {y}|other string word : The other one
sort,reorder|put {x} in order;~{x} is a mess, bring in some order from A to Z;arrange what is in {x} by name
translate|put {x} into {y};~I need {x} in {y};~my aunt only reads {y}, make {x} readable for her|language string language : Into which language
validate,check|see whether {x} is all right;~is there anything wrong with {x}?;go over {x} for mistakes;~does {x} keep to the rules?
repair,fix|~{x} is broken, mend it;set {x} right;get {x} to work again;patch up {x}
transfer,change_owner|~{x} belongs to {y} from now on;make {y} the owner of {x};give {x} to {y} for keeps|owner string person : Who owns it then
lend,loan|let {y} have {x} for a while;~{y} borrows {x};~{y} may take {x} and bring it back|person string person : Who borrows it
return,give_back|~I bring {x} back;~here is {x} again, thanks for lending it;take {x} back from me;~I'm through with {x}, it goes back where I got it
buy,purchase,order|get me {x};~I'll take {x}, here is my card;pay for {x};~{x} shall be mine, whatever it costs
sell|find somebody who pays for {x};turn {x} into cash;~who wants {x} for money?;put {x} on the market
price,quote|~how much is {x}?;~what does {x} cost?;~what would I have to pay for {x}?;tell me what they charge for {x}
track,locate|~where is {x} now?;~has {x} arrived?;find out how far {x} has come;keep an eye on the way of {x}
count,measure_size|~how big is {x}?;~how much is there in {x}?;tell me the size of {x};~how many things does {x} hold?
history,log,changes|~who did what to {x}, and when?;~what has happened to {x} since it began?;show all that was ever changed in {x};trace {x} back to its beginning
test,try_out|give {x} a trial run;see whether {x} works before it counts;put {x} through its paces;~let's have a dry run of {x}
remind,alert|don't let me forget {x};~poke me about {x} in time;ring a bell when it is time for {x}
invite,add_member|ask {y} to join {x};~{y} should be part of {x};bring {y} into {x};~I want {y} in {x}|person string person : Who joins
kick,remove_member|throw {y} out of {x};~{y} is no longer part of {x};show {y} the door of {x};~{x} goes on without {y}|person string person : Who has to leave
mute,silence|~I don't want to hear {x};make {x} quiet;turn {x}'s sound off;~{x} is too loud, hush it
summarise,digest|give me the gist of {x};boil {x} down to a few sentences;~{x} in brief, please;~I have no time for all of {x}, the main points"""
THINGS = """playlist folder document account server ticket booking contract campaign channel course device invoice note
    photo album recipe form survey poll report dashboard script job task project branch database table backup key
    certificate group team page article video podcast episode product coupon shipment parcel order membership
    reservation event meeting calendar alarm list template theme bot sensor camera lamp printer queue cluster volume
    snapshot domain mailbox letter thread game level character route map sketch poster song lesson quiz exam
    experiment sample dataset model draft blog newsletter shop garden boat bike locker room desk machine
    drone robot""".split()  # noqa: SIM905
NAMES = ("{v}_{n}", "{v}_{n}", "{v}_{n}", "{n}_{v}")
ABOUTS = (
    "{V} a {n}.", "{V} {n}s", "To {v} one {n}.", "{V} one of the user's {n}s.", "{V} the {n} named",
)  # fmt: skip
CALLED = ("the {n} {i}", "{n} {i}", "my {n} {i}", "{i}", "our {n} {i}", "the {n} called {i}")
KEYS = (("name", "title", "{n}"), ("{n}", "name", "which"), ("{n}_id", "id", "identifier"))
IDS = ("word", "word", "slug", "id", "title")


@dataclass(frozen=True)
class Action:
    """Something that is done with things."""

    verbs: tuple[str, ...]
    said: tuple[str, ...]
    more: Parameter | None = None  # what else it has to know


@cache
def actions() -> tuple[Action, ...]:
    """The table, read."""
    found = []
    for line in ACTIONS.splitlines():
        verbs, said, *more = line.split("|")
        extra = read_parameter(more[0]) if more else None
        found.append(Action(tuple(verbs.split(",")), tuple(said.split(";")), extra))
    return tuple(found)


def draw_siblings(rng: Random, size: int) -> tuple[list[Function], list[Function]]:
    """Functions that all do something else with things of one kind or two, and others that do yet something else.

    What is asked need not name the kind, so no action comes twice.
    """
    things = rng.sample(THINGS, rng.choice((1, 1, 2)))
    chosen = rng.sample(actions(), min(size + 6, len(actions())))
    drawn = [draw(rng, action, rng.choice(things)) for action in chosen]
    return drawn[:size], drawn[size:]


def draw(rng: Random, action: Action, thing: str) -> Function:
    """One function with requests that hardly ever say its verb."""
    verbs = rng.sample(action.verbs, len(action.verbs))
    names = tuple(dict.fromkeys(rng.choice(NAMES).format(v=v, n=thing) for v in verbs))
    spoken = [verb.replace("_", " ") for verb in action.verbs]
    abouts = tuple(
        about.format(v=verb, V=verb.capitalize(), n=thing)
        for about in rng.sample(ABOUTS, 3)
        for verb in [rng.choice(spoken)]
    )
    keys = tuple(key.format(n=thing) for key in rng.choice(KEYS))
    described = (f"The {thing}", f"Which {thing}", f"Name of the {thing}")
    parameters = [Parameter(keys, "string", rng.choice(IDS), described, False)]
    of = f"{{{keys[0]}}}"
    other = ""
    if action.more:
        parameters.append(action.more)
        other = f"{{{action.more.key}}}"
    function = Function(thing, names, abouts, parameters)
    for said in rng.sample(action.said, min(4, len(action.said))):
        called = rng.choice(CALLED).format(n=thing, i=of)
        function.requests.append(said.replace("{x}", called).replace("{y}", other))
    if not action.more and rng.random() < 0.5:
        called = rng.choice(CALLED).format(n=thing, i=of)
        function.requests.append(f"{rng.choice(spoken)} {called}")
    return function
