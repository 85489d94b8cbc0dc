"""The table of French."""

from omnitts_cli.text.spoken.european.table import (
    Calendar,
    Coin,
    Counting,
    LanguageTable,
    Noun,
    Ordinals,
    Things,
    nouns,
    pairs,
    words,
)

TEENS = words("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept "
              "dix-huit dix-neuf")  # fmt: skip
TENS = words("vingt trente quarante cinquante soixante")
SMALL = (
    *TEENS,
    *(word for ten in TENS[:4] for word in (ten, f"{ten} et un", *(f"{ten}-{one}" for one in TEENS[2:10]))),
    *("soixante", "soixante et un", *(f"soixante-{one}" for one in TEENS[2:11])),
    *("soixante et onze", *(f"soixante-{one}" for one in TEENS[12:])),
    *("quatre-vingts", *(f"quatre-vingt-{one}" for one in TEENS[1:])),
)
HUNDREDS = ("cent", *(f"{one} cent" for one in TEENS[2:10]))

COUNTING = Counting(
    small=SMALL,
    hundreds=HUNDREDS,
    round_hundreds=("cent", *(f"{one}s" for one in HUNDREDS[1:])),
    hundred_join=" ",
    thousand="mille",
    thousands="mille",
    thousand_gap=" ",
    thousand_join=(" ", " "),
    scales=(
        (10**12, Noun("billion", "billions")),
        (10**9, Noun("milliard", "milliards")),
        (10**6, Noun("million", "millions")),
    ),
    before_thousand=((r"(cent|vingt)s$", r"\1"),),
    before_noun=(),
    feminine=((r"\bun$", "une"),),
    elided=(),
    of_millions=" de",
    comma="virgule",
    point="point",
    minus="moins",
    singular_below=2,
)

ORDINALS = Ordinals(
    words={1: "premier"},
    ending=((r"cinq$", "cinquième"), (r"neuf$", "neuvième"), (r"(cent|vingt|million)s$", r"\1ième"), (r"e?$", "ième")),
    feminine=((r"premier$", "première"),),
    before_noun=(),
    masculine_mark="ers?|es?|è|ème|ième|nd|ᵉ",
    feminine_mark="re|ère|nde",
    first_of_month="premier",
    roman_mark="ers?|re|ère|e|è|ème|ième|ᵉ",
    centuries=frozenset(("siècle", "siècles")),
    last_century=0,
    chapters=frozenset(("chapitre", "chap", "tome", "acte", "livre", "titre", "article", "partie")),
    last_king=1,
    kings=frozenset(("Charles", "François", "Louis", "Henri", "Philippe", "Napoléon", "Élisabeth", "Jean", "Pie",
                     "Georges", "Guillaume", "Nicolas", "Léopold", "Albert")),
    queens="(?!)",
    second={"nd": "second", "nde": "seconde"},
)  # fmt: skip

CALENDAR = Calendar(
    months=words("janvier février mars avril mai juin juillet août septembre octobre novembre décembre"),
    short_months={"janv": 1, "jan": 1, "févr": 2, "fév": 2, "avr": 4, "juil": 7, "sept": 9, "oct": 10, "nov": 11,
                  "déc": 12, "fevrier": 2, "aout": 8},
    of_month=" ",
    of_year=" ",
    hour=Noun("heure", "heures", True),
    minute=Noun("minute", "minutes", True),
    second=Noun("seconde", "secondes", True),
    clock="{hours} {minute}",
    full_hour="{hours}",
    clock_after=frozenset(),
    duration_join=" ",
    halves=("du matin", "de l'après-midi", "du soir"),
)  # fmt: skip

EURO = Coin(Noun("euro", "euros"), Noun("centime", "centimes"))
DOLLAR = Coin(Noun("dollar", "dollars"), Noun("cent", "cents"))
POUND = Coin(Noun("livre", "livres", True), Noun("penny", "pence"))
FRANC, YEN = Coin(Noun("franc", "francs"), Noun("centime", "centimes")), Coin(Noun("yen", "yens"), Noun("sen", "sen"))

THINGS = Things(
    coins={"€": EURO, "EUR": EURO, "$": DOLLAR, "US$": DOLLAR, "USD": DOLLAR, "£": POUND, "GBP": POUND, "CHF": FRANC,
           "FF": FRANC, "¥": YEN, "JPY": YEN},
    coin_join=" ",
    large={"M": 10**6, "k": 1000, "Md": 10**9, "Mds": 10**9, "million": 10**6, "millions": 10**6, "milliard": 10**9,
           "milliards": 10**9, "mille": 1000},
    units=nouns(
        "km=kilomètre,kilomètres m=mètre,mètres cm=centimètre,centimètres mm=millimètre,millimètres kg=kilo,kilos "
        "g=gramme,grammes mg=milligramme,milligrammes t=tonne,tonnes,f l=litre,litres L=litre,litres "
        "ml=millilitre,millilitres mL=millilitre,millilitres cl=centilitre,centilitres dl=décilitre,décilitres "
        "ha=hectare,hectares h=heure,heures,f min=minute,minutes,f mn=minute,minutes,f s=seconde,secondes,f "
        "ms=milliseconde,millisecondes,f °C=degré,degrés ºC=degré,degrés °F=degré_Fahrenheit,degrés_Fahrenheit "
        "°_C=degré,degrés °=degré,degrés kW=kilowatt,kilowatts W=watt,watts kWh=kilowattheure,kilowattheures "
        "MW=mégawatt,mégawatts V=volt,volts Hz=hertz,hertz kHz=kilohertz,kilohertz MHz=mégahertz,mégahertz "
        "GHz=gigahertz,gigahertz Ko=kilooctet,kilooctets Mo=mégaoctet,mégaoctets Go=gigaoctet,gigaoctets "
        "To=téraoctet,téraoctets MB=mégaoctet,mégaoctets GB=gigaoctet,gigaoctets kcal=kilocalorie,kilocalories,f "
        "ch=cheval,chevaux dB=décibel,décibels"
    ),
    per="par",
    per_units=pairs("h=heure s=seconde min=minute jour=jour kg=kilo l=litre m=mètre"),
    square=("carré", "carrés"),
    cubic=("cube", "cubes"),
    percent="pour cent",
    half=("un demi", "une demi"),
    parts={3: Noun("tiers", "tiers"), 4: Noun("quart", "quarts"), 5: Noun("cinquième", "cinquièmes"),
           6: Noun("sixième", "sixièmes"), 7: Noun("septième", "septièmes"), 8: Noun("huitième", "huitièmes"),
           9: Noun("neuvième", "neuvièmes"), 10: Noun("dixième", "dixièmes")},
    over="sur",
    slash="barre",
    to="à",
    signs={"&": "et", "+": "plus", "=": "égale", "×": "fois", "@": "arobase", "<": "inférieur à", ">": "supérieur à"},
    before_names=pairs(
        "M.=monsieur MM.=messieurs Mme=madame Mmes=mesdames Mlle=mademoiselle Mlles=mesdemoiselles Mme.=madame "
        "Mlle.=mademoiselle Dr=docteur Dr.=docteur Drs=docteurs Pr=professeur Pr.=professeur Me=maître "
        "Mgr=monseigneur St=saint Ste=sainte bd=boulevard bd.=boulevard boul.=boulevard av.=avenue pl.=place"
    ),
    before_figures=pairs(
        "n°=numéro nº=numéro no.=numéro p.=page pp.=pages art.=article chap.=chapitre fig.=figure vol.=volume t.=tome "
        "tél.=téléphone env.=environ éd.=édition"
    ),
    anywhere=pairs(
        "etc.=et_cetera av._J.-C.=avant_Jésus-Christ apr._J.-C.=après_Jésus-Christ ap._J.-C.=après_Jésus-Christ "
        "J.-C.=Jésus-Christ c.-à-d.=c'est-à-dire p._ex.=par_exemple env.=environ"
    ),
    phones=(r"0[1-9](?:[ .\u00a0]\d\d){4}", r"0[1-9]\d{8}", r"\+33 ?[1-9](?: ?\d\d){4}"),
    phone_pairs=True,
    called=frozenset(("appelez", "appeler", "téléphone", "tél", "tel", "portable", "fax")),
)  # fmt: skip

TABLE = LanguageTable(
    counting=COUNTING,
    ordinals=ORDINALS,
    calendar=CALENDAR,
    things=THINGS,
    feminine_noun=r"(?:(?:[ts]ion|té|ée|ette|elle|ille|an[cs]e|en[cs]e|ure|ière|euse|[tr]rice|ade|ise|ine|itude|esse"
    r"|aine|aire|oire|ie|ue|omme|onne|enne|ode|ole|igne|ache|iche|ouche|orte|able|aise)s?|heures?|pages?|places?|minutes?"
    r"|secondes?|fois|choses?|photos?|voix|villes?|femmes?|mains?|nuits?|dents?|parts?|sœurs?|écoles?|roses?|têtes?"
    r"|lettres?|cartes?|lignes?|images?|plages?|tables?|notes?|routes?|mères?|tonnes?|étapes?|plantes?"
    r"|fenêtres?|pièces?|bougies?|rues?)$",
    masculine_noun=r"^(?:\w*hommes?|sommes|musées?|lycées?|trophées?|étés?|côtés?|comtés?|traités?|comités?|députés?|exemplaires?"
    r"|anniversaires?|commentaires?|dictionnaires?|millionnaires?|fonctionnaires?|domaines?|magazines?|milles?|mille"
    r"|silences?|incendies?|génies?|parapluies?|signes?|territoires?|laboratoires?|codes?|épisodes?|grades?|stades?)$",
    no_noun=frozenset(words(
        "et ou de du des à au aux en dans sur sous avec sans pour par le la les un une que qui se ne pas est sont "
        "était a ont il elle ils elles on ce cette ces son sa ses mais où donc si plus moins virgule dont entre chez "
        "avant après depuis pendant jusque vers"
    )),
    elision=((r"\bde (?=[aeiouhéèêâîœ])", "d'"),),
)  # fmt: skip
