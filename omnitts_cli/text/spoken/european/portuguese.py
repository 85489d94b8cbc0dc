"""The table of Brazilian Portuguese."""

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

ONES = words("um dois três quatro cinco seis sete oito nove")
TENS = words("vinte trinta quarenta cinquenta sessenta setenta oitenta noventa")
SMALL = (
    *words("zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete "
           "dezoito dezenove"),
    *(word for ten in TENS for word in (ten, *(f"{ten} e {one}" for one in ONES))),
)  # fmt: skip
REST = words("duzentos trezentos quatrocentos quinhentos seiscentos setecentos oitocentos novecentos")

COUNTING = Counting(
    small=SMALL,
    hundreds=("cento", *REST),
    round_hundreds=("cem", *REST),
    hundred_join=" e ",
    thousand="mil",
    thousands="mil",
    thousand_gap=" ",
    thousand_join=(" e ", " "),
    scales=(
        (10**12, Noun("trilhão", "trilhões")),
        (10**9, Noun("bilhão", "bilhões")),
        (10**6, Noun("milhão", "milhões")),
    ),
    before_thousand=(),
    before_noun=(),
    feminine=((r"\bum\b", "uma"), (r"\bdois\b", "duas"), (r"entos\b", "entas")),
    elided=(),
    of_millions=" de",
    comma="vírgula",
    point="ponto",
    minus="menos",
    singular_below=2,
)

ORDINALS = Ordinals(
    words=dict(zip(
        (*range(1, 11), 20, 30, 40, 50, 60, 70, 80, 90, 100),
        words("primeiro segundo terceiro quarto quinto sexto sétimo oitavo nono décimo vigésimo trigésimo quadragésimo "
              "quinquagésimo sexagésimo septuagésimo octogésimo nonagésimo centésimo"),
        strict=True,
    )),
    ending=(),
    feminine=((r"o\b", "a"),),
    before_noun=(),
    masculine_mark=r"\.?º|\.?o(?= )",
    feminine_mark=r"\.?ª|\.?a(?= )",
    first_of_month="primeiro",
    roman_mark=r"(?!)",
    centuries=frozenset(("século", "séculos", "séc")),
    last_century=10,
    chapters=frozenset(("capítulo", "cap", "tomo", "ato", "título", "artigo", "seção", "parte", "fase")),
    last_king=10,
    kings=frozenset(("Pedro", "João", "Carlos", "Isabel", "Elizabeth", "Luís", "Henrique", "Filipe", "Francisco",
                     "José", "Maria", "Manuel", "Afonso", "Jorge", "Pio", "Paulo", "Bento")),
    queens="Isabel|Elizabeth|Maria|Catarina|Ana|Cristina|Vitória|Margarida",
    second={},
)  # fmt: skip

CALENDAR = Calendar(
    months=words("janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro"),
    short_months={"jan": 1, "fev": 2, "mar": 3, "abr": 4, "mai": 5, "jun": 6, "jul": 7, "ago": 8, "set": 9, "out": 10,
                  "nov": 11, "dez": 12},
    of_month=" de ",
    of_year=" de ",
    hour=Noun("hora", "horas", True),
    minute=Noun("minuto", "minutos"),
    second=Noun("segundo", "segundos"),
    clock="{hour} e {minute}",
    full_hour="{hours}",
    clock_after=frozenset(),
    duration_join=" e ",
    halves=("da manhã", "da tarde", "da noite"),
)  # fmt: skip

EURO = Coin(Noun("euro", "euros"), Noun("cêntimo", "cêntimos"))
REAL = Coin(Noun("real", "reais"), Noun("centavo", "centavos"))
DOLLAR = Coin(Noun("dólar", "dólares"), Noun("centavo", "centavos"))
POUND = Coin(Noun("libra", "libras", True), Noun("pêni", "pence"))
YEN = Coin(Noun("iene", "ienes"), Noun("sen", "sen"))

THINGS = Things(
    coins={"€": EURO, "EUR": EURO, "R$": REAL, "BRL": REAL, "$": DOLLAR, "US$": DOLLAR, "USD": DOLLAR, "£": POUND,
           "GBP": POUND, "¥": YEN, "JPY": YEN},
    coin_join=" e ",
    large={"M": 10**6, "mil": 1000, "mi": 10**6, "bi": 10**9, "milhão": 10**6, "milhões": 10**6, "bilhão": 10**9,
           "bilhões": 10**9},
    units=nouns(
        "km=quilômetro,quilômetros m=metro,metros cm=centímetro,centímetros mm=milímetro,milímetros kg=quilo,quilos "
        "g=grama,gramas mg=miligrama,miligramas t=tonelada,toneladas,f l=litro,litros L=litro,litros "
        "ml=mililitro,mililitros mL=mililitro,mililitros ha=hectare,hectares h=hora,horas,f hs=hora,horas,f "
        "min=minuto,minutos s=segundo,segundos seg=segundo,segundos ms=milissegundo,milissegundos °C=grau,graus "
        "ºC=grau,graus °F=grau_Fahrenheit,graus_Fahrenheit °_C=grau,graus °=grau,graus kW=quilowatt,quilowatts "
        "W=watt,watts kWh=quilowatt-hora,quilowatts-hora MW=megawatt,megawatts V=volt,volts Hz=hertz,hertz "
        "kHz=quilohertz,quilohertz MHz=megahertz,megahertz GHz=gigahertz,gigahertz KB=kilobyte,kilobytes "
        "MB=megabyte,megabytes GB=gigabyte,gigabytes TB=terabyte,terabytes kcal=quilocaloria,quilocalorias,f "
        "cv=cavalo,cavalos dB=decibel,decibéis"
    ),
    per="por",
    per_units=pairs("h=hora s=segundo min=minuto dia=dia kg=quilo l=litro m=metro"),
    square=("quadrado", "quadrados"),
    cubic=("cúbico", "cúbicos"),
    percent="por cento",
    half=("meio", "meia"),
    parts={3: Noun("terço", "terços"), 4: Noun("quarto", "quartos"), 5: Noun("quinto", "quintos"),
           6: Noun("sexto", "sextos"), 7: Noun("sétimo", "sétimos"), 8: Noun("oitavo", "oitavos"),
           9: Noun("nono", "nonos"), 10: Noun("décimo", "décimos")},
    over="sobre",
    slash="barra",
    to="a",
    signs={"&": "e", "+": "mais", "=": "igual a", "×": "vezes", "@": "arroba", "<": "menor que", ">": "maior que"},
    before_names=pairs(
        "Sr.=senhor Sra.=senhora Srta.=senhorita Srs.=senhores Sras.=senhoras Dr.=doutor Dra.=doutora Drs.=doutores "
        "D.=dom Prof.=professor Profa.=professora Profª=professora Prof.ª=professora Eng.=engenheiro Gen.=general "
        "Cel.=coronel Cap.=capitão Pe.=padre Sto.=santo Sta.=santa Av.=avenida R.=rua Pça.=praça Al.=alameda "
        "Rod.=rodovia"
    ),
    before_figures=pairs(
        "nº=número n.º=número n°=número núm.=número pág.=página págs.=páginas pag.=página p.=página pp.=páginas "
        "art.=artigo cap.=capítulo fig.=figura vol.=volume tel.=telefone séc.=século aprox.=aproximadamente"
    ),
    anywhere=pairs(
        "etc.=etcetera a.C.=antes_de_Cristo d.C.=depois_de_Cristo a._C.=antes_de_Cristo d._C.=depois_de_Cristo "
        "p._ex.=por_exemplo p.ex.=por_exemplo aprox.=aproximadamente máx.=máximo mín.=mínimo Cia.=companhia"
    ),
    phones=(r"(?:\+55 ?)?(?:\(\d\d\) ?|\d\d )?(?:9 ?)?\d{4}-\d{4}", r"\d{5}-\d{3}", r"\d{3}\.\d{3}\.\d{3}-\d\d"),
    phone_pairs=False,
    called=frozenset(("ligue", "ligar", "liga", "telefone", "tel", "celular", "whatsapp", "fax")),
)  # fmt: skip

TABLE = LanguageTable(
    counting=COUNTING,
    ordinals=ORDINALS,
    calendar=CALENDAR,
    things=THINGS,
    feminine_noun=r"(?:as?|ã|ãs|ção|ções|são|sões|dades?|agem|agens|tudes?)$"
    r"|^(?:vez|vezes|mãos?|mulher(?:es)?|noites?|tardes?|partes?|flor(?:es)?|luz|luzes|voz|vozes|cruz|cruzes|classes?"
    r"|leis?|chaves?|mães?|fotos?|motos?|redes?|séries?|espécies?)$",
    masculine_noun=r"^(?:dias?|meio-dias?|mapas?|\w*(?:ble|te|ste|gra|dio|cli|dra|oe|que|ro|plo)mas?|\w*istas?"
    r"|planetas?|cometas?|poetas?|atletas?|colegas?|pijamas?|(?:quilo|mili)?gramas?|sofás?|fãs?|irmãos)$",
    no_noun=frozenset(words(
        "e ou de do da dos das a ao à aos às em no na nos nas com por para pelo pela sem sobre entre desde até que se "
        "é são era foi não nem o os as um uma seu sua meu minha mas como mais menos quando onde já também há está "
        "estão cada muito contra durante antes depois este esta"
    )),
    elision=(),
)  # fmt: skip
