"""The English words that decide how a written form is read: what stands for what, and which neighbours matter.

Another language is another module with the same names, and its own file of lines in tests/text.
"""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def pairs_of(text: str) -> dict[str, str]:
    """`a=b c=d e` -> {"a": "b", "c": "d", "e": "e"}; `_` stands for a space."""
    found = (entry.partition("=") for entry in text.split())
    return {short: (long or short).replace("_", " ") for short, _, long in found}


# ---- neighbours: words in small letters, without their marks

LABELS = words(
    "apartment apt unit suite ste room rm gate seat row exit section sec fig figure figs figures table tab chapter ch "
    "form block building bldg floor fl platform track terminal hall lot bay zone dock pier door stall route rt rte "
    "hwy highway bus flight line model type class grade group level version appendix app annex schedule exhibit item "
    "part pt plate panel step question problem exercise article art clause paragraph para page p pp vol volume box "
    "drawer shelf aisle cabin berth coach carriage car wing flat house stop bed ward cell lane pin aircraft engine "
    "district precinct battalion company platoon phase case count rule title tier category size formula equation eq "
    "rwy runway gates seats rooms rows exits sections tables apartments flats units forms types models lines "
    "tracks platforms"
)
"""What is numbered: a letter after the number belongs to it, as in gate 7A."""
MADE = words(
    "boeing airbus cessna embraer douglas antonov tupolev concorde mig sukhoi mcdonnell intel amd nvidia porsche bmw "
    "audi peugeot fiat ferrari mercedes"
)
"""Makers, whose numbers are names."""
COUNTED_NOUNS = words(
    "users user views view people downloads followers subscribers parameters params tokens dollars euros pounds plays "
    "likes streams rows records lines words copies units votes members customers visitors hits jobs deaths cases "
    "homes households years residents installs requests images samples documents pages stars players viewers "
    "listeners readers students workers employees cars barrels tons tonnes acres miles shares bonus investment deal "
    "plan budget loan grant fund round valuation population model models weights inhabitants transactions messages "
    "posts songs books photos videos devices accounts patients doses tests items objects"
)
"""What is counted in thousands, millions and billions."""
ABOUT = words(
    "about around over under nearly almost roughly some approximately approx than exceeded reached hit topped by "
    "least most total of only up worth cost costs spent raised lost earned paid to"
)
FOOD = words(
    "oil salt sugar flour butter milk water vanilla cinnamon pepper garlic honey vinegar soy sauce lemon lime juice "
    "cream cheese baking powder soda yeast paprika cumin ginger oregano basil thyme parsley chili cocoa cornstarch "
    "mustard mayonnaise mayo ketchup stock broth wine rice rum extract nutmeg turmeric curry cayenne syrup molasses "
    "yogurt olive vegetable sesame brown melted chopped minced grated unsalted kosher oats nuts raisins tomato coffee"
)
"""After a number and T, t or c they show that it is a spoon or a cup."""
LASTING = words("eta wait waited took takes lasted lasts runtime uptime delay delayed within")
"""Before 45m they show that it is minutes."""
PATIENTS = words("is was has had denies reports presents states seen admitted with complains tolerated c/o in on s/p")
"""After "Pt." they show that it is a patient."""
NETWORKS = words(
    "llama qwen mistral gemma gpt falcon phi deepseek mixtral yi olmo bloom opt glm vicuna pythia palm models model "
    "qwen2 qwen3 llama2 llama3"
)
"""Models that are called by the number of their parameters."""
AMPERES = words(
    "fuse fuses breaker breakers charger chargers circuit circuits current outlet battery draws draw rated amps volts "
    "supply adapter load relay socket plug switch motor diode regulator drawing carries carry"
)
FORCES = words(
    "force forces thrust tension grip load pull push weight pressing exert exerts applied newton newtons spring"
)
HEAT = words(
    "temp temps temperature temperatures oven bake baked preheat heat heated cook roast roasted weather fever degrees "
    "water boil boils boiling melt melts freeze freezes freezing hot cold warm cool hit high low forecast outside "
    "reach reached celsius fahrenheit below above c f at to thermometer thermostat set"
)
MEASURED_NOUNS = words(
    "battery batteries fuse fuses bulb bulbs charger chargers adapter outlet outlets socket motor motors engine "
    "engines breaker breakers supply circuit circuits cable cables cord wire screw screws nail nails bolt bolts pipe "
    "pipes board boards screen screens monitor monitors tv drive drives disk disks ssd card cards can cans pencil "
    "pencils sheet sheets bag bags bottle bottles jar jars box boxes pack packs package packages tank tanks tube "
    "tubes tin tins carton cartons steak burger lens lenses camera cameras film gun guns caliber pistol rifle cannon "
    "run runs race races walk hike ride swim sprint dash relay lap bike wrench drill blade hose ladder rope tape "
    "tile tiles plank beam pool fence wall wheel wheels tire tires pan plate dish skillet cake pizza sub hoagie turn "
    "angle rise drop range bill bills note coin coins deal budget plan fine prize bonus loan fund tip gift ticket "
    "fee discount led radiator heater oven amp amplifier speaker resistor capacitor laser antenna modem link "
    "connection line lines limit delay timeout limits dose doses tablet tablets pill pills capsule capsules serving "
    "servings barrel drum bucket jug pitcher mug glass keg truck van boat yacht ship plane rock weight weights "
    "dumbbell layover delay drive commute shift session meeting window break trip flight lecture saucepan pot "
    "casserole cooler backpack aquarium headline bike camera drone tablet laptop phone display dumbbells vest "
    "kettlebell child baby fish dog cat man woman pkg pkgs pkt ctn btl cont tube vinyl single notebook binder"
)
"""Nouns that a measure stands before: a twelve volt battery."""
DATED = words(
    "on by until till til since due before after starting ending born dated expires exp dinner meeting party wedding "
    "concert deadline ooo off away closed open mon tue tues wed thu thur thurs fri sat sun monday tuesday wednesday "
    "thursday friday saturday sunday date released updated effective through thru from ends starts begins birthday "
    "su mo tu we th fr sa m avail available arriving arrives leaving leaves"
)
"""Before 12/25 they show that it is a date."""
NOT_DATED = words("of times hours percent cup cups inch inches mile miles way done full the")
TRIES = words(
    "times tries attempts votes people games stars tests cases runs passed failed players points matches questions "
    "respondents patients days lanes lap laps page pages round rounds step steps members teeth"
)
"""After 3/5 they show that it is three out of five."""
OUT_OF_BEFORE = words("thread lap page step round part level question stage slide track volume day week")
YEARS_BEFORE = words("in by since until from of after before during circa around about year to through ad form")
SCORED = words(
    "score scored scores got quiz test exam grade rating rated shot shooting went passed failed hit made only just "
    "correct answered about nearly over ratio odds chance"
)
"""Before 12/25 they show that it is a share of something."""
RATIOS = words("ratio ratios slope aspect value factor average total power rate odds chance probability fraction")
PAPERS = words(
    "invoice order ticket case rfc po batch lot claim policy ref acct account permit docket file serial model sku "
    "inv conf confirmation reference law"
)
"""Before 24-118 they show that the hyphen joins two parts of a number."""
COORDINATES = words("lat latitude lon long longitude")
TYPES = words("font typeface helvetica times arial garamond courier type text heading body")
"""Before 12 pt they show that it is points."""
CALLED = words(
    "call dial text txt reply code pin account id extension ext otp passcode password zip card ending ends port"
)
"""Before a number they show that it is said digit by digit."""

SCRIPTURE = (
    "Gen Genesis Exodus Ex Psalm Psalms Ps Isaiah Isa Matthew Matt Mark Luke John Acts Romans Rom Corinthians Cor "
    "Qur'an Quran Koran Surah Proverbs Prov Job Revelation Rev Hebrews Heb Deuteronomy Deut Leviticus Lev Ephesians "
    "Eph James"
).split()
"""Books whose chapters and verses are 3:16."""
BIBLE = pairs_of(
    "Gen=Genesis Exod=Exodus Lev=Leviticus Num=Numbers Deut=Deuteronomy Josh=Joshua Judg=Judges Sam=Samuel Kgs=Kings "
    "Chron=Chronicles Chr=Chronicles Neh=Nehemiah Ps=Psalm Pss=Psalms Prov=Proverbs Eccl=Ecclesiastes Isa=Isaiah "
    "Jer=Jeremiah Ezek=Ezekiel Dan=Daniel Hos=Hosea Mic=Micah Hab=Habakkuk Zech=Zechariah Mal=Malachi Matt=Matthew "
    "Mt=Matthew Mk=Mark Lk=Luke Jn=John Rom=Romans Cor=Corinthians Gal=Galatians Eph=Ephesians Phil=Philippians "
    "Col=Colossians Thess=Thessalonians Tim=Timothy Heb=Hebrews Jas=James Pet=Peter Rev=Revelation"
)
"""Short names of its books, before a chapter and a verse."""

# ---- short words

CHAT = pairs_of(
    "thx=thanks thnx=thanks tks=thanks ty=thank_you pls=please plz=please btw=by_the_way attn=attention fwd=forward "
    "ppl=people gr8=great b4=before l8r=later l8=late m8=mate 2nite=tonight 2day=today 2moro=tomorrow "
    "2morrow=tomorrow w8=wait msg=message msgs=messages govt=government dept=department "
    "appt=appointment mgmt=management mgr=manager asst=assistant mtg=meeting yr=year yrs=years pkg=package "
    "pkgs=packages wknd=weekend tmrw=tomorrow tmr=tomorrow tho=though thru=through cuz=because coz=because "
    "bday=birthday rly=really srsly=seriously sry=sorry tysm=thank_you_so_much tyvm=thank_you_very_much "
    "nvm=never_mind jk=just_kidding ily=I_love_you hbu=how_about_you wbu=what_about_you wyd=what_are_you_doing "
    "hru=how_are_you hmu=hit_me_up lmk=let_me_know yw=you're_welcome gtg=got_to_go g2g=got_to_go "
    "ofc=of_course prolly=probably smth=something sth=something sm1=someone any1=anyone every1=everyone abt=about "
    "ur=your cya=see_you kk=okay luv=love tmw=tomorrow 2mrw=tomorrow wkend=weekend wk=week wks=weeks mins=minutes "
    "secs=seconds wya=where_are_you qty=quantity utd=united jct=junction bldg=building bldgs=buildings "
    "b'fast=breakfast avg=average acct=account approx=approximately amt=amount intl=international "
    "clsd=closed nite=night tonite=tonight 4get=forget 4ever=forever tht=that h8=hate sum1=someone "
    "no1=no_one wld=would cld=could thnks=thanks tmrrw=tomorrow 2mor=tomorrow bbq=barbecue "
    "xmas=Christmas whn=when wht=what bcuz=because gnite=goodnight doz=dozen bfast=breakfast wru=where_are_you "
    "hbd=happy_birthday "
    "txt=text btwn=between txts=texts txted=texted thanx=thanks knw=know ths=this frm=from wats=what's wat=what "
    "bcoz=because "
    "rply=reply tomo=tomorrow gd=good hav=have rgds=regards sch=school"
)
SPELLED = words("ERA EIN SOB TID EPS COO OBO")
"""Acronyms said letter by letter, though they look like words."""
SMALL_ONLY = words("m8 wru hbd gd sch wat hav smth sth ur ily hbu wbu hru")
"""Forms of chat that may be names with a capital."""
NOT_IN_CAPITALS = words("def info txt frm wat bc ty yw jk ily sth msg msgs wld cld shd hv no1 xmas")
"""Forms of chat that are letters when they are written in capitals."""
LETTERS = words(
    "idk xo xoxo omw tbh imo imho fyi lol omg ttyl brb rn smh ngl irl afk dm dms rsvp eta diy faq ftw tldr nsfw "
    "wtf ikr iirc "
    "afaik obo bbl brt idc tbf tbt tgif tba tbd ootd nbd fwiw icymi iykyk byob pov gf bf bff bffs ffs tmi rofl lmao "
    "sms gps tv tvs dvd dvds ceo cfo cto suv suvs pto phd html css http https www url urls api apis sql ssh ftp "
    "tcp udp ip usb hdmi pdf csv xml php cpu cpus gpu "
    "gpus hp pr ai ml qa"
)
"""Written in small letters, but said letter by letter."""
APOSTROPHES = pairs_of(
    "acc't=account add'l=additional add'n=addition add'tl=additional aff'd=affirmed app'd=approved "
    "ass'n=association ass't=assistant "
    "assoc'n=association auth'd=authorized avg'd=averaged b'day=birthday b'fast=breakfast b'klyn=Brooklyn "
    "b'way=Broadway "
    "c'tee=committee c'tte=committee c'ttee=committee chg'd=charged comm'n=commission comm'r=commissioner "
    "cont'd=continued dep't=department enc'd=enclosed est'd=established exp'd=expired gov't=government "
    "govt's=government's int'l=international mat'l=material mat'ls=materials mem'l=memorial mkt'g=marketing "
    "nat'l=national o'night=overnight op'd=opened pat'd=patented pkg'd=packaged prof'l=professional rec'd=received "
    "reg'd=registered reno'd=renovated rev'd=reversed req'd=required ret'd=retired sched'd=scheduled sec'y=secretary "
    "sup't=superintendent tht's=that's dr's=doctor's c'mon=come_on"
)
SHORT_WORDS = pairs_of(
    "w/o=without o/u=over_under q/q=quarter_over_quarter y/y=year_over_year m/m=month_over_month "
    "w/c=week_commencing w/e=whatever w/out=without w/=with c/o=care_of s/h=shipping_and_handling b/c=because "
    "n/a=not_applicable and/or=and_or he/she=he_or_she "
    "she/he=she_or_he his/her=his_or_her her/his=her_or_his him/her=him_or_her s/he=she_or_he A/C=A_C a/c=AC "
    "N/A=not_applicable o/n=overnight f/u=follow_up b/w=between b/t=between w/i=within w/in=within h/o=history_of "
    "s/p=status_post d/t=due_to r/t=round_trip"
)

# ---- addresses

STREETS = pairs_of(
    "St=Street Ave=Avenue Av=Avenue Rd=Road Ln=Lane Dr=Drive Blvd=Boulevard Ct=Court Pl=Place Sq=Square Hwy=Highway "
    "Pkwy=Parkway Ter=Terrace Terr=Terrace Cir=Circle Expy=Expressway Expwy=Expressway Fwy=Freeway Tpke=Turnpike "
    "Trl=Trail Aly=Alley Cres=Crescent Plz=Plaza Xing=Crossing Brg=Bridge Pike Street Avenue Road Lane Drive "
    "Boulevard Court Place Square Highway Parkway Terrace Circle Way Trail Row Broadway"
)
COMPASS = pairs_of("N=North S=South E=East W=West NE=Northeast NW=Northwest SE=Southeast SW=Southwest")
NEWSPAPER_STATES = pairs_of(
    "Ala=Alabama Ariz=Arizona Calif=California Colo=Colorado Conn=Connecticut Fla=Florida Kans=Kansas Mich=Michigan "
    "Minn=Minnesota Mont=Montana Nebr=Nebraska Nev=Nevada Okla=Oklahoma Tenn=Tennessee Tex=Texas Wis=Wisconsin "
    "Wyo=Wyoming Mass=Massachusetts Ark=Arkansas Del=Delaware Ga=Georgia Ill=Illinois Ind=Indiana Kan=Kansas "
    "Ky=Kentucky La=Louisiana Md=Maryland Miss=Mississippi Mo=Missouri Neb=Nebraska Ore=Oregon Pa=Pennsylvania "
    "Vt=Vermont Va=Virginia Wash=Washington N.H=New_Hampshire N.J=New_Jersey N.M=New_Mexico N.Y=New_York "
    "N.C=North_Carolina N.D=North_Dakota R.I=Rhode_Island S.C=South_Carolina S.D=South_Dakota W.Va=West_Virginia"
)
"""As newspapers shorten them: Tampa, Fla.; (D-Mass.)"""
ONLY_STATES = words("Ala Ariz Calif Colo Conn Fla Kans Mich Minn Mont Nebr Nev Okla Tenn Tex Wis Wyo")
"""Of these, the ones that are nothing else, so that no town need stand before them."""
REGIONS = words(
    "Korea Dakota Carolina America Africa Ireland Vietnam Yemen Sudan Macedonia Sea Pole Bank Coast Side End Asia "
    "Island Hollywood Zealand Wales"
)
"""Before them N. and S. are North and South."""
WEEK_LETTERS = pairs_of(
    "M=Monday T=Tuesday Tu=Tuesday W=Wednesday Th=Thursday F=Friday Sa=Saturday Su=Sunday R=Thursday"
)
PARTIES = pairs_of("D=Democrat R=Republican I=Independent")
PROVINCES = pairs_of(
    "ON=Ontario QC=Quebec BC=British_Columbia AB=Alberta MB=Manitoba SK=Saskatchewan NS=Nova_Scotia NB=New_Brunswick "
    "NL=Newfoundland_and_Labrador PE=Prince_Edward_Island VIC=Victoria NSW=New_South_Wales QLD=Queensland "
    "TAS=Tasmania WA=Western_Australia SA=South_Australia ACT=ACT NT=Northern_Territory"
)
"""Of Canada and Australia, before the postcode."""
STATES = pairs_of(
    "AL=Alabama AK=Alaska AZ=Arizona AR=Arkansas CA=California CO=Colorado CT=Connecticut DE=Delaware FL=Florida "
    "GA=Georgia HI=Hawaii ID=Idaho IL=Illinois IN=Indiana IA=Iowa KS=Kansas KY=Kentucky LA=Louisiana ME=Maine "
    "MD=Maryland MA=Massachusetts MI=Michigan MN=Minnesota MS=Mississippi MO=Missouri MT=Montana NE=Nebraska "
    "NV=Nevada NH=New_Hampshire NJ=New_Jersey NM=New_Mexico NY=New_York NC=North_Carolina ND=North_Dakota OH=Ohio "
    "OK=Oklahoma OR=Oregon PA=Pennsylvania RI=Rhode_Island SC=South_Carolina SD=South_Dakota TN=Tennessee TX=Texas "
    "UT=Utah VT=Vermont VA=Virginia WA=Washington WV=West_Virginia WI=Wisconsin WY=Wyoming"
)
"""Read after a comma that follows a town: Austin, TX."""
BEFORE_NAMES = pairs_of("Bd=Boulevard Boul=Boulevard Mt=Mount Ft=Fort Pt=Point St=Saint Mts=Mountains")

# ---- before a name, and before a number

TITLES = pairs_of(
    "Mr=Mister Mrs=Missus Ms=Miz Mx=Mix Dr=Doctor Prof=Professor Gen=General Capt=Captain Cpt=Captain Lt=Lieutenant "
    "Sgt=Sergeant Gov=Governor Rev=Reverend Col=Colonel Maj=Major Cmdr=Commander Sen=Senator Rep=Representative "
    "Pres=President Hon=Honorable Cpl=Corporal Pvt=Private Adm=Admiral Det=Detective Fr=Father Supt=Superintendent "
    "Insp=Inspector Amb=Ambassador Sec=Secretary Msgr=Monsignor Ofc=Officer Pfc=Private_First_Class Brig=Brigadier "
    "Sr=Sister Br=Brother Atty=Attorney Treas=Treasurer Chmn=Chairman"
)
