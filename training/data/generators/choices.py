"""Made-up functions with real booleans and enums, asked for by wording, value or synonym.

Which values an enum has, and in which order, is drawn for every block, so that a list of values must be
read and cannot be remembered.
"""

from __future__ import annotations

from random import Random

from training.data.generators.association_tasks import draw_association_enum
from training.data.generators.tables import FLAG_PHRASES, SCALES
from training.data.tasks import TaskFunction, TaskParameter

RIDDLES = 0.3  # share of enums that are asked for by association

# names | what is said for true | for false. `{}` is the thing.
SWITCHES = """enabled,active,is_active,on|turn on {},turn {} on,switch on {},enable {},activate {},start {},start up {}|turn off {},turn {} off,switch off {},disable {},deactivate {},stop {},shut down {}
power,power_on,powered,state,on|power up {},switch {} on,turn on {},start {},get {} running,boot {}|power down {},switch {} off,turn off {},stop {},cut {} off,kill {}
disabled,off,inactive|disable {},turn {} off,switch {} off,deactivate {}|enable {},turn {} on,switch {} on,activate {}
locked,lock,is_locked,secure|lock {},lock up {},secure {},bolt {}|unlock {},release {},free {},open up {}
open,opened,is_open|open {},open up {},pull {} open,push {} open|close {},shut {},pull {} shut
closed,shut,is_closed|close {},shut {}|open {},open up {}
visible,show,shown,is_visible|show {},display {},reveal {},make {} visible,bring {} back into view|hide {},conceal {},make {} invisible,get {} out of sight
hidden,hide,invisible|hide {},make {} invisible,conceal {}|show {},reveal {},make {} visible again,unhide {}
muted,mute,silent|mute {},silence {},make {} quiet,take the sound off {}|unmute {},let {} be heard,give {} its sound back,turn the sound of {} on
public,is_public,published|make {} public,publish {},open {} to everybody,let everyone see {}|make {} private,unpublish {},keep {} to ourselves,take {} offline
private,is_private|make {} private,keep {} to ourselves,close {} to outsiders|make {} public,let everyone see {},open {} to everybody
paused,pause,on_hold|pause {},put {} on hold,suspend {},freeze {},interrupt {}|resume {},continue {},go on with {},unpause {},let {} run again
running,run|run {},start {},launch {},get {} going|stop {},halt {},end {},bring {} to a stop
archived,archive|archive {},put {} into the archive,store {} away|unarchive {},restore {},take {} out of the archive
pinned,pin|pin {},keep {} at the top,stick {} to the top|unpin {},remove {} from the top,let {} go from the top
favorite,starred,star,is_favorite|star {},mark {} as a favourite,add {} to my favourites|unstar {},remove {} from my favourites,{} is no favourite any more
read,seen,is_read|mark {} as read,set {} to read,I have read {}|mark {} as unread,set {} to unread,I have not read {} yet
approved,approve,accepted,accept|approve {},accept {},say yes to {},give {} the green light,agree to {}|reject {},refuse {},decline {},deny {},say no to {},turn {} down
rejected,decline|reject {},refuse {},turn {} down|accept {},approve {},agree to {}
blocked,block,banned|block {},ban {},forbid {},keep {} out|unblock {},lift the ban on {},let {} in again,allow {}
allowed,allow,permitted|allow {},permit {},let {} through|forbid {},block {},don't allow {},prohibit {}
subscribed,subscribe,follow|subscribe to {},sign me up for {},follow {},I want to hear from {}|unsubscribe from {},unfollow {},I'm done with {},no more news from {}
connected,connect,linked|connect {},plug in {},attach {},link {}|disconnect {},unplug {},detach {},unlink {}
done,completed,complete,finished|tick off {},mark {} as done,{} is finished,complete {},check {} off|reopen {},mark {} as not done,{} is not finished after all,untick {}
encrypted,encrypt,protected|encrypt {},protect {},make {} unreadable for others|decrypt {},remove the protection of {},leave {} unencrypted
raised,raise,up|raise {},lift {},put {} up,move {} up|lower {},put {} down,let {} down,move {} down
automatic,auto,automatically|automate {},let {} run by itself,make {} automatic|make {} manual,I'll do {} by hand,no automation for {}
notify,notifications,alerts|notify me about {},keep me posted on {},send me alerts for {},tell me when {} changes|don't notify me about {},stop the alerts for {},no more messages about {},leave me in peace with {}
recurring,repeat,repeating|repeat {},make {} recurring,{} happens again and again|do {} only once,don't repeat {},{} is a one-off
required,mandatory,compulsory|make {} mandatory,{} is required,nobody may skip {}|make {} optional,{} is not required,anyone may skip {}
optional|make {} optional,anyone may skip {}|make {} mandatory,{} is required
shared,share|share {},let the others use {},give everybody access to {}|stop sharing {},keep {} for me alone,unshare {}
sorted_descending,descending,reverse|sort {} from high to low,{} in descending order,the largest of {} first|sort {} from low to high,{} in ascending order,the smallest of {} first
permanent,forever|keep {} for good,make {} permanent,{} shall stay forever|make {} temporary,{} is only for now,drop {} later
urgent,is_urgent,rush|{} is urgent,hurry up with {},treat {} as urgent|{} can wait,no hurry with {},treat {} as not urgent
heated,heating,warm|heat {},warm up {},turn on the heating of {}|stop heating {},let {} cool down,turn off the heating of {}
filled,full|fill {},fill up {}|empty {},drain {}
tracked,track,monitor|track {},keep an eye on {},monitor {},watch {}|stop tracking {},stop watching {},don't monitor {} any longer
draft,as_draft|keep {} as a draft,save {} as a draft,don't send {} yet|send {} right away,{} is final,submit {} for real
dry_run,simulate,test_only|only simulate {},just test {},do a dry run of {}|do {} for real,really do {},no dry run for {}""".splitlines()

# Optional switches: names | said for true | for false | about
EXTRAS = """include_images,with_images,images|with images,pictures included,and show pictures|without images,no pictures,text only|Also return images
verbose,detailed,details|with all details,in detail,tell me everything|just briefly,without details,only the essentials|Return details
force,overwrite|even if it exists,overwrite it,by force|don't overwrite anything,unless it exists,without force|Overwrite what exists
confirm,ask_first,confirmation|ask me first,but check with me before|don't ask me,without asking|Ask before doing it
recursive,subfolders,deep|with subfolders,all the way down,recursively|without subfolders,only the top level,not recursively|Also in folders below
notify_owner,send_email,notify|and send a mail,notify the owner,let them know|but send no mail,don't notify anybody,keep it quiet|Send a notification
case_sensitive,match_case|respect upper and lower case,case matters|ignore case,upper or lower case doesn't matter|Distinguish upper and lower case
include_tax,tax_included,with_tax|tax included,including tax,with tax|before tax,without tax,tax excluded|With tax
round_trip,return_trip|there and back,with a return,round trip|one way,without a return,just one way|Also back
express,fast,priority_handling|express,as fast as possible,with priority|no hurry,at normal speed,without express|Faster for a fee
gift_wrap,gift,wrapped|as a gift,gift wrapped,wrap it nicely|no gift wrap,don't wrap it,plain packaging|Wrap as a present
anonymous,hide_name|anonymously,without my name,don't say who I am|under my name,not anonymously,show my name|Hide the name of the sender
include_inactive,inactive_too|inactive ones too,including inactive ones,active or not|only active ones,without inactive ones,leave out the inactive ones|Also inactive ones
wheelchair,accessible|wheelchair accessible,it must be accessible,with step-free access|steps are fine,accessibility is not needed,no wheelchair access needed|Accessible for wheelchairs
pets,pet_friendly|pets allowed,I bring my dog,pet friendly|no pets,without animals,pets not needed|Pets are allowed
breakfast,with_breakfast|with breakfast,breakfast included|without breakfast,no breakfast|Breakfast included
wifi,internet|with wifi,internet included|no wifi needed,without internet|With internet
alcohol,serves_alcohol|with alcohol,drinks included|without alcohol,alcohol-free|Alcohol is served
in_stock,available_only,only_available|only what is in stock,that I can get at once|also what is sold out,in stock or not|Only what is available
dry_run,simulate|just simulate,only a test,as a dry run|for real,not just a test,no dry run|Change nothing, only tell
backup,make_backup|with a backup,make a backup first,save a copy before|without a backup,no backup needed|Make a backup before
color,in_color|in colour,coloured|in black and white,without colour,greyscale|In colour
metric,use_metric|in metric units,metric please|in imperial units,not metric|Metric units
newest_first,latest_first|newest first,the latest on top|oldest first,starting with the oldest|Newest first
exact,exact_match|exact matches only,exactly these words|similar ones too,roughly is fine|Only exact matches""".splitlines()

# names | value=said/said,... Values of an enum; half of the requests use a synonym.
ENUMS = """priority,urgency,importance|low=not urgent/whenever there is time,normal=ordinary,high=urgent/important,critical=drop everything/an emergency
status,state,stage|open=still open,in_progress=being worked on/started,blocked=stuck/waiting for others,done=finished/complete,cancelled=called off/dropped
size,dimension|small=little/tiny,medium=mid-sized,large=big,extra_large=huge/very big/XL
order,sort_order,direction|asc=ascending/lowest first/upwards,desc=descending/highest first/downwards
unit,temperature_unit,scale|celsius=degrees C/°C,fahrenheit=degrees F/°F,kelvin=K
unit,length_unit,distance_unit|km=kilometers,mi=miles,m=meters,ft=feet,cm=centimeters,in=inches
unit,weight_unit,mass_unit|kg=kilograms/kilos,g=grams,lb=pounds,oz=ounces,t=tons
format,output_format,file_type|json=JSON,csv=comma separated,xml=XML,yaml=YAML,pdf=PDF,html=a web page,txt=plain text,xlsx=Excel/a spreadsheet,md=Markdown
speed,pace,mode|slow=slowly/gently,normal=ordinary,fast=quick/quickly,turbo=as fast as it gets/full speed
period,interval,frequency|hourly=every hour,daily=every day/each day,weekly=every week/once a week,monthly=every month/once a month,yearly=every year/annually
range,time_range,period|today=this day,week=last seven days/past week,month=last thirty days/past month,year=last twelve months/past year,all=ever/since the beginning
level,difficulty,skill|easy=simple/for beginners,medium=moderate/intermediate,hard=difficult/tough,expert=extremely hard/for professionals
severity,log_level,level|debug=everything,info=information,warning=warnings,error=errors/failures,critical=fatal/the worst
color_mode,theme,appearance|light=bright/day,dark=black/night,auto=like the system/automatic
visibility,audience,access|private=only me/nobody else,friends=people I know,team=my colleagues,public=everybody/the whole world
role,permission,access_level|viewer=read only/just looking,commenter=may leave remarks,editor=may change things,owner=full control,guest=visitor
payment_method,payment,pay_with|cash=coins and notes/in cash,card=credit card/by card,transfer=bank transfer/wire,invoice=on account/bill me later,wallet=phone wallet
transport,mode,travel_mode|car=driving/by car,walk=on foot/walking,bike=cycling/by bicycle,bus=by bus,train=by rail/by train,plane=flying/by air
class,cabin,category|economy=cheapest/coach,premium=premium economy,business=business class,first=first class/the best
meal,meal_type,time_of_day|breakfast=in the morning/morning,lunch=at noon/midday,dinner=in the evening/supper,snack=in between/a bite
season,time_of_year|spring=when things bloom,summer=the warm months,autumn=fall,winter=the cold months
direction,heading,side|north=northwards/up the map,south=southwards,east=eastwards,west=westwards
direction,move,turn|left=to the left,right=to the right,forward=ahead/straight on,backward=back/in reverse,up=upwards,down=downwards
alignment,align,position|left=flush left,center=in the middle/centred,right=flush right,justify=both edges straight
position,place,where|top=at the top/above,bottom=at the bottom/below,start=at the beginning,end=at the end/last,middle=in between
quality,resolution|low=poor/draft,medium=good enough,high=very good/HD,ultra=the best there is/4K
tone,style,voice|formal=polite/official,friendly=warm/kind,funny=humorous/with jokes,neutral=matter of fact,short=brief/to the point
language_level,proficiency|beginner=no knowledge/starting,intermediate=some knowledge,advanced=good knowledge,native=mother tongue
gender,sex|male=man/men,female=woman/women,other=neither/non-binary
method,http_method,verb|GET=fetch/read,POST=create,PUT=replace,PATCH=change a part,DELETE=remove
environment,env,target|dev=development/my machine,staging=test system/pre-production,prod=production/live
shape,form|circle=round,square=with four equal sides,triangle=three-sided,rectangle=oblong,star=star-shaped
material,fabric|wood=wooden,metal=steel/iron,glass=made of glass,plastic=synthetic,cotton=soft cloth,leather=from hide
weather,condition,sky|sunny=clear/bright,cloudy=overcast/grey,rainy=wet/raining,snowy=snowing/white,windy=stormy/gusty
mood,emotion,feeling|happy=cheerful/glad,sad=down/unhappy,angry=furious/mad,calm=relaxed/quiet,anxious=worried/nervous
temperature,heat,warmth|cold=chilled/icy,lukewarm=tepid,warm=heated,hot=very warm/boiling
spiciness,spice|mild=not spicy,medium=a bit spicy,hot=very spicy/fiery
doneness,cooking|rare=bloody,medium=pink inside,well_done=cooked through
sweetness,sugar|none=no sugar/unsweetened,half=a little sugar,full=sweet/all the sugar
action,command,operation|start=begin/launch,stop=end/halt,restart=start again/reboot,pause=hold/suspend,status=how it is doing
action,edit,operation|add=append/put in,remove=delete/take out,replace=exchange/swap,clear=empty/wipe
operator,comparison|eq=equal to/exactly,gt=more than/greater than/above,lt=less than/below/under,ne=different from/not equal to
operation,op,calculation|sum=total/add up,average=mean,max=highest/maximum,min=lowest/minimum,count=how many/number of
chart,chart_type,graph|bar=bars/columns,line=curve,pie=pie slices/round chart,scatter=points/dots,area=filled curve
day,weekday|monday=Mon,tuesday=Tue,wednesday=Wed,thursday=Thu,friday=Fri,saturday=Sat,sunday=Sun
channel,via,medium|email=by mail/e-mail,sms=text message/by text,push=pop-up/push notification,call=by phone/phone call,letter=by post/on paper
reason,cause|damaged=broken,wrong_item=not what I ordered,late=came too late,not_needed=changed my mind,too_small=doesn't fit
plan,tier,subscription|free=costs nothing/unpaid,basic=starter/smallest,pro=professional,enterprise=for big companies/largest
vehicle,car_type,vehicle_type|compact=small car,sedan=saloon/family car,suv=off-roader,van=minibus/for many people,truck=pickup/lorry
room_type,room|single=for one person,double=for two,twin=two beds,suite=several rooms,family=with the children
diet,dietary,diet_type|vegan=no animal products/plant based,vegetarian=no meat/meatless,halal=allowed for Muslims,kosher=by Jewish law,gluten_free=without gluten,none=anything/no restrictions
genre,kind,category|comedy=funny/something to laugh,drama=serious,horror=scary/frightening,romance=love story/romantic,thriller=suspense/exciting,documentary=true story/factual
surface,terrain|road=asphalt/paved,gravel=dirt,trail=forest path/off-road,sand=beach
age_group,audience,for_whom|children=kids/little ones,teens=teenagers/adolescents,adults=grown-ups,seniors=elderly people/pensioners
encoding,charset|utf-8=UTF-8/unicode,ascii=plain English letters,latin-1=Western European
compression,archive_type|zip=ZIP,gzip=gz,tar=tarball,none=uncompressed/as it is
risk,risk_level|low=safe/cautious,medium=balanced/moderate,high=risky/daring
relation,relationship|parent=mother or father,child=son or daughter,sibling=brother or sister,spouse=husband or wife,friend=pal
category,department,topic|billing=invoices and payments,technical=something is broken/a fault,sales=buying something,other=something else
condition,state|new=unused,like_new=hardly used,used=second-hand,broken=defective/for parts
layout,orientation|portrait=upright,landscape=sideways/horizontal,square=equal sides
scope,include|all=everything/every one,selected=what I marked,visible=what is on screen,none=nothing
strategy,algorithm,approach|greedy=one step at a time,random=by chance,exact=best possible,fast=approximate/rough
license,licence|mit=MIT,gpl=copyleft,apache=Apache,proprietary=closed source/commercial
repeat,recurrence|never=only once/one time,daily=each day,weekly=each week,monthly=each month
gear,drive_mode|park=P,reverse=backwards,neutral=N,drive=forwards/D
water,program,cycle|eco=saving energy/economical,quick=short,intensive=strong/heavy duty,delicate=gentle
sort_by,order_by,sort_key|price=cost,rating=stars/score,distance=how near,date=time/age,name=alphabet,popularity=what others like""".splitlines()

VERBS = tuple(
    """set get find search create update list show start book order send make change configure export plan
schedule add request choose select apply generate check run prepare open submit publish import assign""".split()  # noqa: SIM905
)
OBJECTS = tuple(
    """report ticket invoice project meeting playlist alarm camera printer heater recipe trip route chart file
folder backup account profile page article photo video order parcel room table car bike lamp door window fan
sensor job task note calendar message channel server database cluster container branch build release user team
campaign survey form course lesson quiz game match score workout meal menu drink garden pump robot drone
machine tool lens filter query dataset model layer document slide poster label badge ticket seat flight""".split()  # noqa: SIM905
)
ABOUT_THING = ("Name of the {}", "Which {}", "The {}", "Id of the {}")
THINGS = ("slug", "id", "word", "title", "filename", "person", "city", "phrase")


def draw_switch(rng: Random) -> TaskFunction:
    """A function that switches something on or off, with wordings of both."""
    names, yes, no = (part.split(",") for part in rng.choice(SWITCHES).split("|"))
    noun = rng.choice(OBJECTS)
    named = rng.random() < 0.5
    flag = rng.choice(names)
    verb = rng.choice(("set", "switch", "update", "change", "toggle", "control", "mark"))
    name = rng.choice(
        (f"{verb}_{noun}", f"{verb}_{noun}_{flag}", f"{noun}_{flag}", f"set_{noun}_state")
    )
    spoken = flag.replace("is_", "").replace("_", " ")
    about = rng.choice(
        (
            f"Whether the {noun} is {spoken}",
            f"True to {yes[0].format(f'the {noun}')}, false to {no[0].format(f'the {noun}')}",
            f"{spoken.capitalize()} or not",
        )
    )
    parameters = [TaskParameter((flag,), "boolean", "", (about,), False)]
    if named:
        about = rng.choice(ABOUT_THING).format(noun)
        parameters.insert(
            0,
            TaskParameter(
                (noun, f"{noun}_id", "name"), "string", rng.choice(THINGS), (about,), False
            ),
        )
    extra = draw_extra(rng, names) if rng.random() < 0.3 else None
    if extra:
        parameters.append(extra[0])
    key = parameters[0].key
    function = TaskFunction(
        noun,
        (name,),
        (
            f"{verb.capitalize()} {noun}: {spoken} or not.",
            f"Controls whether the {noun} is {spoken}.",
        ),
        parameters,
        topic=noun,
    )
    for _ in range(6):
        value = rng.random() < 0.5
        slot = f"{{{key}}}" if named else ""
        bare = named and rng.random() < 0.25  # the name alone: nobody has to say what it is
        thing = slot if bare else f"the {noun} {slot}".strip()
        said = rng.choice(yes if value else no).format(thing)
        before, _, after = said.partition(slot) if named else (said, "", "")
        statement = "~" if said.startswith(("the ", "I", "you", "no ", "{")) else ""
        tail = f" [, {extra[1]}]" if extra else ""
        wording = before.rstrip() or after.strip()
        wording = wording if value else f"/{wording}"
        flagged = f"{{{flag}:{wording}}}"
        slot = f" {slot}" if named else ""
        function.requests.append(
            f"{statement}{flagged}{slot}{after}{tail}"
            if before.strip()
            else f"{statement}{slot.strip()} {flagged}{tail}"
        )
    return function


def draw_extra(rng: Random, taken: list[str]) -> tuple[TaskParameter, str] | None:
    """An optional switch with its wording."""
    names, yes, no, about = rng.choice(rng.choice((EXTRAS, FLAG_PHRASES))).split("|")
    name = rng.choice(names.split(","))
    if name in taken:
        return None
    said = f"{{{name}:{rng.choice(yes.split(','))}/{rng.choice(no.split(','))}}}"
    return TaskParameter((name,), "boolean", "", (about,), True), said


def draw_enum_parameter(rng: Random, taken: set[str]) -> TaskParameter | None:
    """An enum with some of the values that its kind may have."""
    names, values = rng.choice(rng.choice((ENUMS, SCALES))).split("|")
    name = rng.choice(names.split(","))
    if name in taken:
        return None
    items = values.split(",")
    count = rng.randint(2, len(items))
    chosen = (
        sorted(rng.sample(range(len(items)), count))
        if rng.random() < 0.7
        else rng.sample(range(len(items)), count)
    )
    spoken = name.replace("_", " ")
    about = (f"{spoken.capitalize()}", f"The {spoken} to use", f"Which {spoken}")
    return TaskParameter(
        (name,), "enum", ",".join(items[i] for i in chosen), about, rng.random() < 0.5
    )


def words_of(parameter: TaskParameter) -> set[str]:
    """All wordings of the values of an enum."""
    return {word for value, said in parameter.choices.items() for word in (value, *said)}


def ask_enum(parameter: TaskParameter, rng: Random, *, named: bool) -> str:
    """How a request mentions an enum; `named` if its values alone are ambiguous."""
    key = parameter.key
    name = key.replace("_", " ")
    if named:
        forms = (f"{name} {{{key}}}", f"{name}: {{{key}}}", f"with {name} {{{key}}}")
        return rng.choice((*forms, f"the {name} is {{{key}}}", f"{{{key}}} as {name}"))
    return rng.choice(
        (
            f"{name} {{{key}}}",
            f"{name}: {{{key}}}",
            f"{{{key}}}",
            f"{{{key}}}",
            f"({{{key}}})",
            f"with {name} {{{key}}}",
            f"make it {{{key}}}",
            f"{{{key}}} please",
            f"it should be {{{key}}}",
            f"the {name} is {{{key}}}",
            f"I'd say {{{key}}}",
        )
    )


def third_person(verb: str) -> str:
    """A verb with the ending that descriptions give it."""
    if verb.endswith("y") and verb[-2] not in "aeou":
        return f"{verb[:-1]}ies"
    return verb + ("es" if verb.endswith(("sh", "ch", "s", "x", "z")) else "s")


def draw_choice(rng: Random) -> TaskFunction:
    """A function of one thing and one to three choices."""
    verb, noun = rng.choice(VERBS), rng.choice(OBJECTS)
    taken = {noun}
    parameters: list[TaskParameter] = []
    asked: dict[str, str] = {}
    if rng.random() < 0.75:
        about = rng.choice(ABOUT_THING).format(noun)
        parameters.append(
            TaskParameter(
                (noun, f"{noun}_name", "name"), "string", rng.choice(THINGS), (about,), False
            )
        )
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        riddle = rng.random() < RIDDLES
        enum = draw_association_enum(rng, taken) if riddle else draw_enum_parameter(rng, taken)
        if enum:
            parameters.append(enum)
            taken.add(enum.key)
    if rng.random() < 0.4 and (extra := draw_extra(rng, list(taken))):
        parameters.append(extra[0])
        asked[extra[0].key] = extra[1]
    names = (f"{verb}_{noun}", f"{noun}_{verb}")
    abouts = (
        f"{verb.capitalize()} a {noun}.",
        f"{third_person(verb).capitalize()} the {noun} with the options given.",
    )
    function = TaskFunction(noun, names, abouts, parameters, topic=noun)
    for _ in range(4):
        function.requests.append(phrase_choice(verb, noun, parameters, asked, rng))
    return function


def phrase_choice(
    verb: str, noun: str, parameters: list[TaskParameter], asked: dict[str, str], rng: Random
) -> str:
    """One request: the thing first or last, optional choices now and then."""
    first = next((p for p in parameters if p.type == "string"), None)
    parts = []
    for parameter in parameters:
        if parameter is first:
            continue
        others = [p for p in parameters if p.type == "enum" and p is not parameter]
        said = asked.get(parameter.key)
        if not said:
            shared = any(words_of(parameter) & words_of(other) for other in others)
            said = ask_enum(parameter, rng, named=shared)
        parts.append(f" [, {said}]" if parameter.optional else f", {said}")
    rng.shuffle(parts)
    thing = f"the {noun} {{{first.key}}}" if first else f"a {noun}"
    needed = [p for p in parameters if p.type == "enum" and not p.optional]
    if len(needed) == 1 and rng.random() < 0.3 and len(parts) == 1:
        return (
            f"{verb} the {{{needed[0].key}}} {noun} {{{first.key}}}"
            if first
            else f"{verb} a {{{needed[0].key}}} {noun}"
        )
    lead = rng.choice(
        (
            f"{verb} {thing}",
            f"{verb} {thing}",
            f"~{noun}" + (f" {{{first.key}}}" if first else ""),
            f"I want to {verb} {thing}",
            f"~we need to {verb} {thing}",
        )
    )
    return lead + "".join(parts)
