"""Tables of everyday opposites, things that come with or without something, and scales of values."""

from __future__ import annotations

from pathlib import Path

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


def read_table(name: str) -> list[str]:
    """A table of `training`, without its notes."""
    text = (Path(__file__).parents[1] / "sources" / f"{name}.txt").read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


FLAG_PHRASES, SCALES = read_table("flag_phrases"), read_table("scales")
