"""The table of Italian."""

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

ONES = words("uno due tré quattro cinque sei sette otto nove")
TENS = words("venti trenta quaranta cinquanta sessanta settanta ottanta novanta")
SMALL = (
    *words("zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici "
           "sedici diciassette diciotto diciannove"),
    *(word for ten in TENS for word in (ten, *((ten[:-1] if one[0] in "uo" else ten) + one for one in ONES))),
)  # fmt: skip
HUNDREDS = ("cento", *(f"{one}cento" for one in ("due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove")))

COUNTING = Counting(
    small=SMALL,
    hundreds=HUNDREDS,
    round_hundreds=HUNDREDS,
    hundred_join="",
    thousand="mille",
    thousands="mila",
    thousand_gap="",
    thousand_join=("", ""),
    scales=(
        (10**12, Noun("bilione", "bilioni")),
        (10**9, Noun("miliardo", "miliardi")),
        (10**6, Noun("milione", "milioni")),
    ),
    before_thousand=((r"tré$", "tre"),),
    before_noun=((r"^una (?=[aeiou])", "un'"), (r"^uno (?!s[^aeiou]|z|gn|ps|x|y)(?=\S)", "un ")),
    feminine=((r"^uno$", "una"),),
    elided=((r"centoott", "centott"), (r"(?<=cento)tre$", "tré")),
    of_millions=" di",
    comma="virgola",
    point="punto",
    minus="meno",
    singular_below=0,
)

ORDINALS = Ordinals(
    words=dict(enumerate(words("primo secondo terzo quarto quinto sesto settimo ottavo nono decimo"), 1)),
    ending=((r"tr[eé]$", "treesimo"), (r"sei$", "seiesimo"), (r"mila$", "millesimo"), (r"[aeio]$", "esimo")),
    feminine=((r"o$", "a"),),
    before_noun=(),
    masculine_mark="º",
    feminine_mark="ª",
    first_of_month="primo",
    roman_mark="[º°ª]",
    centuries=frozenset(("secolo", "secoli", "sec")),
    last_century=99,
    chapters=frozenset(("capitolo", "cap", "tomo", "atto", "titolo", "articolo", "sezione", "parte", "libro", "canto")),
    last_king=99,
    kings=frozenset(("Carlo", "Francesco", "Luigi", "Enrico", "Filippo", "Elisabetta", "Vittorio", "Umberto",
                     "Emanuele", "Federico", "Pio", "Giovanni", "Paolo", "Giorgio", "Guglielmo", "Nicola",
                     "Amedeo", "Alberto")),
    queens="Elisabetta|Maria|Caterina|Margherita|Anna|Cristina|Giovanna|Vittoria",
    second={},
)  # fmt: skip

CALENDAR = Calendar(
    months=words("gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"),
    short_months={"gen": 1, "genn": 1, "feb": 2, "febb": 2, "mar": 3, "apr": 4, "mag": 5, "giu": 6, "lug": 7, "ago": 8,
                  "set": 9, "sett": 9, "ott": 10, "nov": 11, "dic": 12},
    of_month=" ",
    of_year=" ",
    hour=Noun("ora", "ore", True),
    minute=Noun("minuto", "minuti"),
    second=Noun("secondo", "secondi"),
    clock="{hour} e {minute}",
    full_hour="{hour}",
    clock_after=frozenset(words("alle dalle ore le all dall l delle nelle")),
    duration_join=" e ",
    halves=("di mattina", "del pomeriggio", "di sera"),
)  # fmt: skip

EURO = Coin(Noun("euro", "euro"), Noun("centesimo", "centesimi"))
DOLLAR = Coin(Noun("dollaro", "dollari"), Noun("centesimo", "centesimi"))
POUND = Coin(Noun("sterlina", "sterline", True), Noun("penny", "pence"))
FRANC, YEN = (
    Coin(Noun("franco", "franchi"), Noun("centesimo", "centesimi")),
    Coin(Noun("yen", "yen"), Noun("sen", "sen")),
)
LIRA = Coin(Noun("lira", "lire", True), Noun("centesimo", "centesimi"))

THINGS = Things(
    coins={"€": EURO, "EUR": EURO, "$": DOLLAR, "US$": DOLLAR, "USD": DOLLAR, "£": POUND, "GBP": POUND, "CHF": FRANC,
           "¥": YEN, "JPY": YEN, "L.": LIRA},
    coin_join=" e ",
    large={"M": 10**6, "k": 1000, "mln": 10**6, "mld": 10**9, "milione": 10**6, "milioni": 10**6, "miliardo": 10**9,
           "miliardi": 10**9, "mila": 1000},
    units=nouns(
        "km=chilometro,chilometri m=metro,metri cm=centimetro,centimetri mm=millimetro,millimetri kg=chilo,chili "
        "g=grammo,grammi mg=milligrammo,milligrammi t=tonnellata,tonnellate,f l=litro,litri L=litro,litri "
        "ml=millilitro,millilitri mL=millilitro,millilitri cl=centilitro,centilitri dl=decilitro,decilitri "
        "ha=ettaro,ettari h=ora,ore,f min=minuto,minuti s=secondo,secondi sec=secondo,secondi "
        "ms=millisecondo,millisecondi °C=grado,gradi ºC=grado,gradi °F=grado_Fahrenheit,gradi_Fahrenheit "
        "°_C=grado,gradi °=grado,gradi kW=kilowatt,kilowatt W=watt,watt kWh=kilowattora,kilowattora "
        "MW=megawatt,megawatt V=volt,volt Hz=hertz,hertz kHz=kilohertz,kilohertz MHz=megahertz,megahertz "
        "GHz=gigahertz,gigahertz KB=kilobyte,kilobyte MB=megabyte,megabyte GB=gigabyte,gigabyte TB=terabyte,terabyte "
        "kcal=chilocaloria,chilocalorie,f CV=cavallo,cavalli dB=decibel,decibel mln=milione,milioni "
        "mld=miliardo,miliardi mq=metro_quadrato,metri_quadrati"
    ),
    per="al",
    per_units=pairs("h=ora s=secondo min=minuto giorno=giorno kg=chilo l=litro m=metro"),
    square=("quadrato", "quadrati"),
    cubic=("cubo", "cubi"),
    percent="per cento",
    half=("mezzo", "mezza"),
    parts={3: Noun("terzo", "terzi"), 4: Noun("quarto", "quarti"), 5: Noun("quinto", "quinti"),
           6: Noun("sesto", "sesti"), 7: Noun("settimo", "settimi"), 8: Noun("ottavo", "ottavi"),
           9: Noun("nono", "noni"), 10: Noun("decimo", "decimi")},
    over="su",
    slash="barra",
    to="a",
    signs={"&": "e", "+": "più", "=": "uguale a", "×": "per", "@": "chiocciola", "<": "minore di", ">": "maggiore di"},
    before_names=pairs(
        "Sig.=signor Sig.ra=signora Sig.na=signorina Sigg.=signori Dott.=dottor Dott.ssa=dottoressa Dr.=dottor "
        "Dr.ssa=dottoressa Prof.=professor Prof.ssa=professoressa Ing.=ingegner Avv.=avvocato Arch.=architetto "
        "Geom.=geometra Rag.=ragionier On.=onorevole Sen.=senatore Gen.=generale Mons.=monsignor V.le=viale "
        "P.za=piazza P.zza=piazza C.so=corso V.=via"
    ),
    before_figures=pairs(
        "n.=numero n°=numero nº=numero nr.=numero num.=numero pag.=pagina pagg.=pagine p.=pagina pp.=pagine "
        "art.=articolo artt.=articoli cap.=capitolo fig.=figura vol.=volume tel.=telefono sec.=secolo ca.=circa"
    ),
    anywhere=pairs(
        "ecc.=eccetera etc.=eccetera a.C.=avanti_Cristo d.C.=dopo_Cristo a._C.=avanti_Cristo d._C.=dopo_Cristo "
        "p._es.=per_esempio ad_es.=ad_esempio p.es.=per_esempio ad.es.=ad_esempio cfr.=confronta"
    ),
    phones=(
        r"(?:\+39 ?)?0\d{1,3}[ /-]\d{3,8}(?:[ -]\d{3,4})?", r"(?:\+39 ?)?3\d\d[ /.-]?\d{3}[ .-]?\d{3,4}",
    ),
    phone_pairs=False,
    called=frozenset(("chiama", "chiami", "chiamare", "chiamate", "telefono", "tel", "cellulare", "cell", "fax")),
)  # fmt: skip

TABLE = LanguageTable(
    counting=COUNTING,
    ordinals=ORDINALS,
    calendar=CALENDAR,
    things=THINGS,
    feminine_noun=r"(?:a|zione|zioni|sione|sioni|tà|tù|ie|ice|ici|udine|udini|notte|mano|parte|classe|legge|voce|luce"
    r"|chiave|gente|nave|neve|carne|pelle|pace|croce|stagione|ragione|regione|auto|moto|foto|radio|edizione)$",
    masculine_noun=r"^(?:\w*(?:ble|te|ste|ra|cli|oe|le|ro|gra|plo)ma|\w*ista|pianeta|poeta|papa|collega|vaglia|pigiama"
    r"|medici|amici|nemici|dici|uffici|edifici|sacrifici|codice|pollice|vertice|indice)$",
    no_noun=frozenset(words(
        "e ed o di del della dei degli delle dello a al alla ai agli alle in nel nella con per da dal dalla su sul "
        "sulla tra fra il lo la i gli le un uno una che chi si non ma se più meno è sono era ha hanno come quando "
        "dove anche virgola ogni"
    )),
    elision=((r"\bchilometr(o|i) al ora\b", r"chilometr\1 orari"), (r"\borari\b(?<=chilometro orari)", "orario"),
             (r"\bal ora\b", "all'ora"), (r"\bun' (?=\w)", "un'")),
)  # fmt: skip
