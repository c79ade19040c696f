"""Tables of everyday opposites, things that come with or without something, and scales of values."""

from __future__ import annotations

# things | adjective/its opposites ; ... The first of each side may name a switch.
STATES = """message,notification,thread,article,letter,report,announcement|read/unread;pinned/unpinned;archived/unarchived;starred/unstarred;important/unimportant;answered/unanswered;flagged/unflagged;visible/hidden,invisible
door,gate,window,hatch,drawer,lid,valve,shutter,curtain,skylight|open/closed,shut;locked/unlocked;automatic/manual;bolted/unbolted
lamp,heater,fan,pump,router,camera,sensor,printer,oven,boiler,projector,speaker|on/off;active/inactive;connected/disconnected,unplugged;automatic/manual;warm/cold;loud/quiet,silent;dimmed/bright;charged/empty
account,user,member,profile,guest,subscriber,login|active/inactive;verified/unverified;blocked/unblocked,allowed;public/private;trusted/untrusted;suspended/reinstated;anonymous/named;online/offline;premium/ordinary
order,invoice,bill,booking,claim,request,application,reservation|paid/unpaid,outstanding;confirmed/unconfirmed;approved/rejected,refused,denied;shipped/unshipped;open/closed,settled;urgent/not urgent;complete/incomplete;refundable/non-refundable;valid/invalid,void
task,job,ticket,assignment,chapter,lesson,milestone,step|done/not done,undone,open;finished/unfinished;started/not started;assigned/unassigned;blocked/unblocked;mandatory,compulsory/optional,voluntary;billable/non-billable;scheduled/unscheduled;late,overdue/on time;solved/unsolved
file,folder,document,drive,archive,backup,page|hidden/visible;encrypted/unencrypted;writable/read-only,write-protected;shared/unshared;compressed/uncompressed;public/private;synced/unsynced;temporary/permanent;signed/unsigned;printable/unprintable
post,comment,photo,video,story,review,playlist,podcast|published/unpublished;public/private;visible/hidden;muted/unmuted;approved/disapproved;sensitive/harmless;monetized/free of ads;edited/unedited;liked/unliked
branch,release,package,build,module,plugin,container,cluster,service|stable/unstable;deprecated/supported;protected/unprotected;enabled/disabled;installed/not installed;running/stopped;healthy/unhealthy;merged/unmerged;up to date/outdated;tested/untested;released/unreleased
table,room,seat,desk,parking space,locker,apartment,studio|free,available/taken,occupied;reserved/unreserved;furnished/unfurnished;heated/unheated;clean/dirty;smoking/non-smoking;accessible/inaccessible;quiet/noisy;empty/full
dish,meal,menu,cake,sauce,drink|vegetarian/with meat;vegan/not vegan;spicy/mild;hot/cold;sweet/unsweetened;alcoholic/alcohol-free,non-alcoholic;gluten-free/with gluten;fresh/frozen;cooked/raw
product,item,phone,laptop,bicycle,jacket,sofa,article of clothing|new/used,second-hand;in stock/sold out,out of stock;returnable/non-returnable;waterproof/not waterproof;taxable/tax-free;reduced/at full price;broken/intact;washable/not washable;wireless/wired;foldable/rigid
course,event,concert,tour,workshop,match,meeting|free/with costs;cancelled/taking place;indoors/outdoors;online/on site;sold out/still available;recorded/unrecorded;recurring/one-off;open to the public/invitation only;beginner friendly/for experts only
employee,contractor,volunteer,nurse,driver,player,student,patient,tenant|present/absent;available/unavailable,busy;employed/unemployed;insured/uninsured;injured/fit;married/unmarried;vaccinated/unvaccinated;certified/uncertified;licensed/unlicensed;full-time/part-time
contract,policy,license,warranty,membership,permit,certificate|valid/expired,invalid;renewable/non-renewable;signed/unsigned;binding/non-binding;limited/unlimited;terminated/ongoing;exclusive/non-exclusive;transferable/non-transferable
car,truck,bus,scooter,trailer,van,ship|electric/not electric;clean/dirty;insured/uninsured;rented out/not rented out;roadworthy/unroadworthy;loaded/unloaded,empty;locked/unlocked;parked/on the road;damaged/undamaged
flight,train,route,trip,ferry,shuttle|direct,non-stop/with changes;delayed/on time,punctual;refundable/non-refundable;cancelled/running;overnight/by day;domestic/international
network,port,address,connection,tunnel,firewall,endpoint|reachable/unreachable;secure/insecure;public/private;open/closed;encrypted/unencrypted;allowed/blocked,forbidden;trusted/untrusted;metered/unmetered
column,field,value,row,cell,key,index|empty/filled;unique/with duplicates;required,mandatory/optional;sorted/unsorted;visible/hidden;editable/locked;numeric/not numeric;sensitive/not sensitive""".splitlines()

# things | what they come with or without
FEATURES = """hotel room,holiday flat,cabin,guest room|breakfast;a balcony;a sea view;a minibar;a desk;a bathtub;air conditioning;parking;late check-out;a crib;a kitchen;towels;pets;wifi;daily cleaning;airport transfer
hire car,van,camper,rental bike|insurance;a child seat;navigation;winter tyres;a second driver;a roof rack;unlimited mileage;a trailer hitch;a helmet;a basket;roadside help;a full tank
pizza,burger,salad,sandwich,wrap,kebab|cheese;onions;garlic;olives;ketchup;bacon;mushrooms;a drink;extra sauce;tomatoes;pickles;croutons;chillies;egg;fries;mayonnaise
coffee,tea,milkshake,smoothie,cocktail|sugar;milk;ice;cream;a straw;lemon;honey;caffeine;alcohol;ginger;a lid;cinnamon;foam
report,presentation,summary,handbook,brochure|charts;a table of contents;a cover page;an appendix;page numbers;footnotes;comments;a glossary;pictures;an index;sources;a summary;raw figures;speaker notes
export,download,data dump,spreadsheet|headers;timestamps;metadata;images;comments;hidden columns;formulas;attachments;totals;history;empty rows;personal data;deleted entries;subfolders
backup,snapshot,migration,import|logs;attachments;encryption;compression;system files;caches;verification;permissions;trash;databases;drafts;duplicates
build,deployment,release,pipeline run|tests;the cache;debug symbols;documentation;source maps;warnings;approval;a changelog;migrations;notifications;downtime;a dry run;minification;a rollback plan
server,virtual machine,database instance,cluster|backups;monitoring;a firewall;swap;a public address;encryption;snapshots;autoscaling;a replica;a load balancer;logging;alerts;a graphics card
ticket,seat,season pass,cinema ticket|a seat reservation;luggage;a refund option;insurance;priority boarding;a meal;parking;a discount card;popcorn;3D glasses;a cloakroom;legroom
video,recording,clip,stream,slideshow|subtitles;sound;a watermark;an intro;music;captions;chapters;credits;effects;a countdown;narration;a thumbnail;ads
photo print,poster,photo book,business card|a frame;a white border;a date stamp;gloss;a caption;rounded corners;a logo;a matte finish;captions;gold edges
parcel,delivery,shipment,letter|tracking;insurance;a signature;a receipt;gift wrap;express service;a return label;customs papers;notification;padding;a delivery note
meeting,conference,webinar,workshop|a recording;a transcript;snacks;an agenda;a projector;minutes;coffee;a whiteboard;a waiting room;screen sharing;breakout rooms;interpreters
apartment,house,office,shop,studio|a garden;a garage;a lift;furniture;a cellar;a terrace;a fireplace;central heating;a doorman;solar panels;step-free access;a second bathroom;a garden shed
phone contract,phone plan,internet plan,subscription|roaming;data;unlimited calls;a router;a landline;a minimum term;television;a new phone;an extra card;voicemail;text messages;ads
tour,excursion,trip,cruise,safari|a guide;lunch;museum tickets;pick-up;an audio guide;insurance;equipment;tips;a hotel;swimming;a boat ride;entrance fees
bicycle,scooter,car,motorbike|a lock;lights;mudguards;a bell;a sunroof;heated seats;cruise control;parking sensors;alloy wheels;a tow bar;a camera;leather seats
password,access code,key|digits;capital letters;symbols;spaces;similar letters;numbers;umlauts;an expiry date
form,survey,questionnaire,registration page|a progress bar;a comment field;required fields;a thank-you page;file upload;captcha;anonymous answers;a deadline;a consent box;notifications
web page,shop page,landing page,blog|cookies;comments;a search box;a newsletter box;ads;dark mode;share buttons;a map;a contact form;tracking;reviews;a sidebar
invoice,quote,bill,receipt|tax;discounts;a logo;bank details;a due date;item numbers;shipping costs;a signature;payment terms;notes;a QR code
alarm,timer,reminder,event|sound;vibration;a snooze button;repetition;a notification;a picture;music;an early warning;a flashing light
workout,training plan,exercise session|a warm-up;weights;breaks;music;stretching;cardio;equipment;a cool-down;jumps;a partner
search,query,analysis,scan|archives;duplicates;synonyms;subfolders;spelling mistakes;hidden files;test data;outliers;weekends;holidays;bots;internal traffic""".splitlines()

# Something done besides: names | said for true | said for false | about. More than `choices.EXTRAS` has.
MANNERS = """send_now,immediate,right_away|and send it right away,at once,now please|but do not send it yet,just don't do it yet,not now|Do it immediately
pay_now,execute,capture|and pay it now,pay at once,settle it now|do not pay yet,but don't pay now,leave it unpaid for now|Pay at once
silent,quiet,no_sound|silently,without a sound,quietly,so that nobody hears it|with sound,loudly,so that everybody hears it|Make no sound
public,is_public,public_reply|in public,publicly,for everyone to see,so that all can read it|in private,privately,just between us,so that nobody else reads it|Everybody can see it
keep_original,keep_copy,preserve|keep the original,but leave the original there,keep a copy|drop the original,and throw the original away,without keeping a copy|Keep the original
notify_all,announce,broadcast|tell everybody,let the whole team know,and announce it|tell nobody,without telling anyone,don't let anyone know|Tell everybody
wait,blocking,wait_for_finish|and wait until it is done,wait for it,don't come back before it is done|don't wait for it,come back at once,without waiting|Wait until it is finished
strict,strict_mode|strictly,be strict,without any exceptions|be lenient,don't be strict,with some tolerance|No tolerance
cache,use_cache,cached|from the cache if possible,cached is fine,use the cache|bypass the cache,fresh please,ignore the cache|Use stored results
ordered,keep_order,in_order|in the same order,keep the order,in this very order|in any order,the order doesn't matter,shuffle them|Keep the order
reversible,undoable,can_undo|so that it can be undone,keep it reversible|for good,irreversibly,with no way back|Can be undone
anonymized,anonymize,hide_names|with the names removed,anonymised,leave out the names|with real names,not anonymised,keep the names|Remove the names
signed,sign,with_signature|with my signature,signed,and sign it|unsigned,without a signature,don't sign it|Put a signature under it
encrypted,encrypt,secure|encrypted,encrypt it,so that no one can read along|unencrypted,in plain text,don't encrypt it|Encrypt it
compressed,compress,zip|compressed,and zip it,make it small|uncompressed,don't zip it,as it is|Compress it
translated,translate|translated,in translation,and translate it|untranslated,in the original language,don't translate it|Translate it
printed,print,on_paper|on paper,printed out,and print it|digitally only,don't print it,not on paper|Print it
vip,priority,fast_lane|with priority,ahead of the others,put it first|in the normal queue,no special treatment,like everybody else|Treat first
auto_renew,renew,auto_extend|and renew it automatically,with automatic renewal,keep extending it|it should simply end,without renewal,don't renew it|Renew automatically
carry_over,rollover,keep_rest|and carry the rest over,keep what is left|let the rest expire,what is left is lost|Carry over what is left
retry,try_again,auto_retry|and try again if it fails,with retries,keep trying|only one attempt,don't try again,give up if it fails|Try again after a failure
fail_fast,stop_on_error,abort_on_error|stop at the first error,give up as soon as something fails|go on after errors,carry on even if something fails,don't stop at errors|Stop at the first error
read_only,readonly,view_only|just for reading,nobody may change it,view only|they may edit it,with the right to change it,editable|Only for reading
lowercase,lower|in small letters,all lower case|in capital letters,all upper case|Small letters
include_today,today_too|including today,today counts too|starting tomorrow,not counting today,from tomorrow on|Today counts
weekends,include_weekends,also_weekends|also on weekends,weekends too,seven days a week|on weekdays only,not on weekends,Monday to Friday only|Weekends too
inclusive,include_end|the last one included,up to and including it|the last one excluded,up to but not including it|Include the last one
background,run_in_background,detached|in the background,while I do something else|in the foreground,I want to watch it|Run in the background
keep_open,stay_open|and leave it open,keep it open|and close it afterwards,then close it|Leave it open
follow_links,follow|follow the links,go through links|don't follow links,ignore the links|Follow links
own_room,separate,single|in a room of our own,separately,by ourselves|together with others,shared,with everybody else|Apart from others
first_time,new_customer,is_new|it's my first time,I am new here,never been there before|I've been there before,I'm a regular,not for the first time|New customer
mornings,in_the_morning,am|in the morning,before noon|in the afternoon,after noon|In the morning
indoor,inside,indoors|inside,indoors,under a roof|outside,outdoors,in the open air|Inside
window,window_seat|by the window,at the window|on the aisle,away from the window|At the window
smoking,smoker|we smoke,for smokers,smoking|we don't smoke,for non-smokers,non-smoking|For smokers
self_pickup,pickup,collect|I'll pick it up,I come and get it myself,I collect it|bring it to me,have it delivered,deliver it|Collected by the customer
by_card,card,cashless|I pay by card,no cash,cashless|I pay cash,in cash,with coins and notes|Pay by card
upgrade,allow_upgrade|an upgrade is welcome,upgrade me if you can|no upgrade please,keep me where I am|Upgrade if possible
substitutes,allow_substitutes,replacement_ok|something similar is fine,replace what is missing|no substitutes,exactly this or nothing|Similar things are fine
alone,solo,single_player|alone,all by myself,just me|with others,in company,not alone|Without others
optional_items,extras,all_extras|with all extras,with everything on it|plain,without extras,no frills|With all extras
loop,repeat,endless|in a loop,over and over,again and again|only once,just one time,don't repeat it|Repeat it
shuffle,random_order,mixed|in random order,shuffled,mix them up|in order,one after another,don't shuffle|Random order
descending,largest_first,high_to_low|largest first,from high to low,downwards|smallest first,from low to high,upwards|Largest first""".splitlines()

# Scales and kinds for enums, as in `choices.ENUMS`: names | value=said/said
SCALES = """environment,target,deploy_to,stage|development=dev/my laptop/local,testing=test/QA,staging=pre-production/stage,production=prod/live/what customers see
bump,change,release_type,level|major=breaking/incompatible/big,minor=feature/new features,patch=bug fix/fix/small repair
branch_kind,kind,type|feature=something new,bugfix=repair/fix,hotfix=urgent repair/emergency fix,release=new version,chore=housekeeping
log_level,verbosity,min_level|trace=everything there is,debug=for debugging,info=informational,warn=warning/warnings,error=errors/failures,fatal=only the worst
state,status,phase|draft=not finished yet/unfinished,review=being checked/under review,published=live/online/out,withdrawn=taken back/pulled
status,state,stage|new=just arrived/untouched,assigned=somebody has it,waiting=on hold/pending,resolved=solved/fixed,closed=over and done
payment_state,status,paid|paid=settled/money received,open=unpaid/outstanding,overdue=late/past due,refunded=paid back/returned money,disputed=contested
delivery_state,status,progress|ordered=just bought,packed=in the box,shipped=on its way/under way/sent,delivered=arrived/handed over,returned=sent back
severity,priority,impact|critical=everything is down/catastrophic,major=serious/bad,moderate=annoying,minor=small/slight,cosmetic=only looks wrong
urgency,how_soon,when|now=immediately/right away/this instant,today=before tonight,this_week=in the next days,whenever=no rush/any time
access,right,permission|read=look/view/see,write=edit/change,execute=run/start,admin=everything/full control,none=no access/nothing
license_type,plan,edition|trial=to try it out/test version,personal=for myself/private use,team=for a few colleagues,company=business/for the whole firm
frequency,interval,every|minutely=every minute,hourly=every hour,daily=every day/each morning,weekly=every week/once a week,monthly=every month,quarterly=every three months/four times a year,yearly=every year/annually
part_of_day,time_of_day,daytime|morning=early/before noon,noon=midday/at lunchtime,afternoon=after lunch,evening=after work/at dusk,night=late/after midnight
comparison,operator,test|equal=the same as/exactly,greater=more than/above/over,less=fewer than/below/under,between=in the range of,not_equal=anything but/different from
aggregate,function,summary|sum=total/altogether,mean=average/on average,median=the middle value,min=lowest/least,max=highest/most,count=how many/number
trend,direction,movement|rising=going up/increasing,falling=going down/decreasing,flat=unchanged/stable
mood,sentiment,tone|positive=happy/pleased/good,neutral=so-so/neither good nor bad,negative=angry/bad/unhappy
weight_class,parcel_size,size|small=up to a shoe box/little,medium=like a suitcase,large=big/like a fridge,oversize=huge/longer than a door
age_class,ticket_type,category|baby=infant/under two,child=kid/boy/girl,teen=teenager/youth,adult=grown-up,senior=pensioner/retired
temperature_level,heat,setting|off=no heat,low=gentle/a little,medium=half way,high=strong/hot,max=full power/as hot as it gets
volume_level,loudness,volume|mute=silent/no sound,quiet=soft/low,normal=as usual,loud=high,max=full blast/as loud as possible
brightness_level,light,brightness|dark=off/no light,dim=faint/soft,normal=medium,bright=strong/full
fabric_care,wash_program,program|cotton=normal wash,wool=hand wash/woollens,synthetic=easy care,delicate=silk/gentle,quick=short/half an hour
bread,bread_type,kind|white=pale,wholemeal=brown/whole grain,rye=dark,gluten_free=without gluten
milk,milk_type,kind|whole=full fat,skimmed=low fat,oat=made of oats,soy=soya,almond=nut,none=black/without milk
egg_style,eggs,style|boiled=from the pot,fried=sunny side up,scrambled=stirred,poached=without shell in water
seat_kind,seat,where|window=by the window,aisle=on the aisle,middle=in between,table=at a table
stage_position,seat_area,area|stalls=down in front/ground floor,circle=upstairs/first floor,gallery=high up/cheapest,box=private
medical_urgency,triage,level|emergency=life in danger,urgent=today/cannot wait,routine=regular check/no hurry
pain,pain_level,strength|none=it doesn't hurt,mild=a little,moderate=quite some,severe=terrible/unbearable
body_side,side,which|left=left-hand,right=right-hand,both=each of them/left and right
document_kind,doc_type,kind|contract=agreement,invoice=bill,receipt=till slip,letter=mail,report=write-up,certificate=proof
id_kind,id_type,proof|passport=travel document,id_card=identity card,driving_licence=driver's license,residence_permit=leave to stay
contact_kind,relation,group|family=relatives/relations,friend=pal/mate,colleague=co-worker/from work,customer=client,other=somebody else
employment,job_type,contract|full_time=all week/forty hours,part_time=some hours/half days,temporary=for a limited time,internship=trainee/intern,freelance=self-employed/by the project
experience,seniority,level|junior=beginner/just out of school,mid=some years/a few years,senior=many years/very experienced,lead=in charge/heading a team
workplace,work_mode,where|office=on site/at the desk,remote=from home/anywhere,hybrid=partly from home/mixed
leave_type,absence,reason|vacation=holiday/days off,sick=ill/unwell,parental=new baby/maternity,unpaid=without pay,study=exam/training
marital_status,family_status,status|single=unmarried/on my own,married=with a spouse,divorced=no longer married,widowed=the partner died
home_kind,property,building|flat=apartment,house=home of its own/detached,studio=one-room flat,room=a single room/shared flat,villa=big house
energy_source,fuel,power|petrol=gasoline,diesel=diesel oil,electric=battery/plug-in,hybrid=both engine and battery,hydrogen=fuel cell
gear_type,transmission,gearbox|manual=stick shift/by hand,automatic=without a clutch/self-shifting
tyres,tyre_type,season|summer=for the warm months,winter=for snow/snow tyres,all_season=for the whole year
difficulty,grade,slope|green=very easy/for first-timers,blue=easy,red=medium,black=hardest/for experts
sky,weather,condition|clear=sunny/blue sky/no clouds,cloudy=grey/overcast,rain=wet/showers,snow=white/flakes,storm=thunder and lightning,fog=misty
wind,wind_level,wind_strength|calm=no wind/still,breeze=light wind,strong=windy/heavy,storm=gale/hurricane
image_kind,picture,format|photo=snapshot/from the camera,drawing=sketch,logo=emblem,chart=diagram,screenshot=picture of the screen
background,backdrop,fill|white=blank,transparent=see-through/none,blur=out of focus,color=one plain tone
crop_shape,ratio,aspect|square=1:1/equal sides,wide=16:9/cinema,tall=9:16/upright/for phones,classic=4:3
quality,resolution,video_quality|low=360p/to save data,medium=480p/normal,high=1080p/full HD,ultra=4K/the best
font_style,emphasis,style|regular=plain/normal,bold=thick/heavy,italic=slanted/cursive,underline=with a line below,strike=crossed out
letter_case,case,casing|upper=capitals/all caps/big letters,lower=small letters,title=each word with a capital,sentence=only the first word with a capital
separator,delimiter,sep|comma=commas,semicolon=semicolons,tab=tabs/tabulators,space=blanks/spaces,pipe=vertical bars
join_kind,join,how|inner=only what is in both,left=everything from the first,right=everything from the second,outer=everything from both
on_conflict,if_exists,conflict|skip=leave it/ignore it,overwrite=replace it/write over it,rename=use another name,fail=stop with an error,append=add to it
on_error,error_handling,if_fails|stop=abort/give up,continue=go on/ignore errors,retry=try again,ask=let me decide
rounding,round_mode,round|up=upwards/to the next higher,down=downwards/cut off,nearest=to the closest,none=not at all/exact
number_base,base,radix|binary=base 2/zeros and ones,octal=base 8,decimal=base 10/ordinary digits,hex=base 16/hexadecimal
sort,sort_by,order|newest=latest first/most recent first,oldest=earliest first,cheapest=lowest price first,dearest=most expensive first,best=top rated first
recipient,audience,send_to|everyone=all/all of them,members=only who belongs to us,admins=only who runs it,me=just myself
notification,alert_by,how|push=on the phone screen,mail=e-mail/by mail,sms=text message,call=ring me,none=don't tell me
answer,reply,response|accept=yes/I come/count me in,decline=no/can't come/count me out,tentative=maybe/not sure yet
vote,ballot,choice|yes=in favour/for it,no=against/against it,abstain=no opinion/neither
verdict,decision,result|approve=looks good/agree to it/wave it through,reject=turn it down/refuse,request_changes=needs work/not like that
result,outcome,score|win=won/victory,loss=lost/defeat,draw=tie/nobody won
colour_scheme,palette,scheme|warm=reds and yellows,cold=blues and greens,grey=black and white/greyscale,pastel=soft tones,vivid=strong colours
noise,noise_reduction,denoise|off=none/leave it,light=a little,strong=as much as possible
audience_level,explain_for,reader|child=for kids/like I'm five,student=for learners,expert=for professionals,everyone=for laypeople
length,size,text_length|short=brief/in a few words,medium=some paragraphs,long=detailed/in full
currency_kind,unit,currency|EUR=euros/euro/€,USD=dollars/US dollars/bucks,GBP=pounds/British pounds/£,JPY=yen/¥,CHF=Swiss francs/francs,INR=rupees
language,lang,locale|en=English,de=German,fr=French,es=Spanish,it=Italian,pt=Portuguese,ja=Japanese,zh=Chinese,ar=Arabic,ru=Russian
country_code,country,nation|DE=Germany,FR=France,US=the United States/America,GB=Britain/the UK,JP=Japan,BR=Brazil,IN=India,CH=Switzerland
weekday,day,on|mon=Monday,tue=Tuesday,wed=Wednesday,thu=Thursday,fri=Friday,sat=Saturday,sun=Sunday
quarter,period,part|Q1=first quarter/January to March,Q2=second quarter/April to June,Q3=third quarter/July to September,Q4=last quarter/October to December
unit,temperature_unit,scale|C=Celsius/centigrade,F=Fahrenheit,K=Kelvin
unit,data_unit,size_unit|KB=kilobytes,MB=megabytes,GB=gigabytes,TB=terabytes
unit,time_unit,in_unit|ms=milliseconds,s=seconds,min=minutes,h=hours,d=days
room_use,room_type,room|bedroom=where we sleep,kitchen=where we cook,bathroom=where we wash,study=where I work,cellar=basement""".splitlines()
