"""The table of Spanish."""

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

ONES = words("uno dos tres cuatro cinco seis siete ocho nueve")
TENS = words("treinta cuarenta cincuenta sesenta setenta ochenta noventa")
SMALL = (
    *words("cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis "
           "diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis "
           "veintisiete veintiocho veintinueve"),
    *(word for ten in TENS for word in (ten, *(f"{ten} y {one}" for one in ONES))),
)  # fmt: skip
REST = words("doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos")

COUNTING = Counting(
    small=SMALL,
    hundreds=("ciento", *REST),
    round_hundreds=("cien", *REST),
    hundred_join=" ",
    thousand="mil",
    thousands="mil",
    thousand_gap=" ",
    thousand_join=(" ", " "),
    scales=(
        (10**18, Noun("trillón", "trillones")),
        (10**12, Noun("billón", "billones")),
        (10**6, Noun("millón", "millones")),
    ),
    before_thousand=((r"veintiuno$", "veintiún"), (r"uno$", "un")),
    before_noun=((r"veintiuno (?=\S)", "veintiún "), (r"\buno (?=\S)", "un ")),
    feminine=((r"uno\b", "una"), (r"ientos\b", "ientas")),
    elided=(),
    of_millions=" de",
    comma="coma",
    point="punto",
    minus="menos",
    singular_below=0,
)

ORDINALS = Ordinals(
    words=dict(zip(
        (*range(1, 13), 20, 30, 40, 50, 60, 70, 80, 90, 100),
        words("primero segundo tercero cuarto quinto sexto séptimo octavo noveno décimo undécimo duodécimo vigésimo "
              "trigésimo cuadragésimo quincuagésimo sexagésimo septuagésimo octogésimo nonagésimo centésimo"),
        strict=True,
    )),
    ending=(),
    feminine=((r"o\b", "a"),),
    before_noun=((r"\b(primer|tercer)o (?=\S)", r"\1 "),),
    masculine_mark=r"\.?º|\.?er|\.?o\.?(?= )",
    feminine_mark=r"\.?ª|\.?ra",
    first_of_month="",
    roman_mark=r"(?!)",
    centuries=frozenset(("siglo", "siglos", "s")),
    last_century=10,
    chapters=frozenset(("capítulo", "cap", "tomo", "acto", "título", "artículo", "sección", "parte", "fase")),
    last_king=10,
    kings=frozenset(("Carlos", "Isabel", "Juana", "Francisco", "Luis", "Enrique", "Pedro", "Alfonso", "Felipe",
                     "Fernando", "Jaime", "Sancho", "Jorge", "Guillermo", "Nicolás", "Benedicto", "Pío")),
    queens=r"Isabel|María|Juana|Cristina|Victoria|Catalina|Ana|Margarita|Urraca",
    second={},
)  # fmt: skip

CALENDAR = Calendar(
    months=words("enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"),
    short_months={"ene": 1, "feb": 2, "mar": 3, "abr": 4, "may": 5, "jun": 6, "jul": 7, "ago": 8, "sep": 9, "sept": 9,
                  "oct": 10, "nov": 11, "dic": 12, "setiembre": 9},
    of_month=" de ",
    of_year=" de ",
    hour=Noun("hora", "horas", True),
    minute=Noun("minuto", "minutos"),
    second=Noun("segundo", "segundos"),
    clock="{hour} y {minute}",
    full_hour="{hour}",
    clock_after=frozenset(),
    duration_join=" y ",
    halves=("de la mañana", "de la tarde", "de la noche"),
)  # fmt: skip

EURO = Coin(Noun("euro", "euros"), Noun("céntimo", "céntimos"))
DOLLAR = Coin(Noun("dólar", "dólares"), Noun("centavo", "centavos"))
POUND = Coin(Noun("libra", "libras", True), Noun("penique", "peniques"))
YEN, PESO = Coin(Noun("yen", "yenes"), Noun("sen", "sen")), Coin(Noun("peso", "pesos"), Noun("centavo", "centavos"))

THINGS = Things(
    coins={"€": EURO, "EUR": EURO, "$": DOLLAR, "US$": DOLLAR, "USD": DOLLAR, "£": POUND, "GBP": POUND, "¥": YEN,
           "JPY": YEN, "MXN": PESO, "ARS": PESO, "COP": PESO, "CLP": PESO},
    coin_join=" con ",
    large={"M": 10**6, "k": 1000, "K": 1000, "mil": 1000, "millón": 10**6, "millones": 10**6, "mill.": 10**6,
           "mil millones": 10**9},
    units=nouns(
        "km=kilómetro,kilómetros m=metro,metros cm=centímetro,centímetros mm=milímetro,milímetros kg=kilo,kilos "
        "g=gramo,gramos mg=miligramo,miligramos t=tonelada,toneladas,f l=litro,litros L=litro,litros "
        "ml=mililitro,mililitros mL=mililitro,mililitros cl=centilitro,centilitros ha=hectárea,hectáreas,f "
        "h=hora,horas,f hs=hora,horas,f min=minuto,minutos s=segundo,segundos seg=segundo,segundos "
        "ms=milisegundo,milisegundos °C=grado,grados ºC=grado,grados °F=grado_Fahrenheit,grados_Fahrenheit "
        "°_C=grado,grados °=grado,grados kW=kilovatio,kilovatios W=vatio,vatios kWh=kilovatio_hora,kilovatios_hora "
        "MW=megavatio,megavatios V=voltio,voltios Hz=hercio,hercios kHz=kilohercio,kilohercios "
        "MHz=megahercio,megahercios GHz=gigahercio,gigahercios KB=kilobyte,kilobytes MB=megabyte,megabytes "
        "GB=gigabyte,gigabytes TB=terabyte,terabytes kcal=kilocaloría,kilocalorías,f cv=caballo,caballos "
        "CV=caballo,caballos dB=decibelio,decibelios"
    ),
    per="por",
    per_units=pairs("h=hora s=segundo min=minuto día=día kg=kilo l=litro m=metro"),
    square=("cuadrado", "cuadrados"),
    cubic=("cúbico", "cúbicos"),
    percent="por ciento",
    half=("medio", "media"),
    parts={3: Noun("tercio", "tercios"), 4: Noun("cuarto", "cuartos"), 5: Noun("quinto", "quintos"),
           6: Noun("sexto", "sextos"), 7: Noun("séptimo", "séptimos"), 8: Noun("octavo", "octavos"),
           9: Noun("noveno", "novenos"), 10: Noun("décimo", "décimos")},
    over="sobre",
    slash="barra",
    to="a",
    signs={"&": "y", "+": "más", "=": "igual a", "×": "por", "@": "arroba", "<": "menor que", ">": "mayor que"},
    before_names=pairs(
        "Sr.=señor Sra.=señora Srta.=señorita Sres.=señores Sras.=señoras Dr.=doctor Dra.=doctora Dres.=doctores "
        "D.=don Dña.=doña D.ª=doña Prof.=profesor Profa.=profesora Ing.=ingeniero Lic.=licenciado Arq.=arquitecto "
        "Gral.=general Cnel.=coronel Tte.=teniente Sto.=santo Sta.=santa Mons.=monseñor Avda.=avenida Avd.=avenida "
        "Av.=avenida Pza.=plaza Pl.=plaza C/=calle Ctra.=carretera P.º=paseo"
    ),
    before_figures=pairs(
        "n.º=número nº=número n°=número núm.=número núms.=números pág.=página págs.=páginas p.=página pp.=páginas "
        "art.=artículo cap.=capítulo fig.=figura vol.=volumen t.=tomo tel.=teléfono tfno.=teléfono apdo.=apartado "
        "s.=siglo aprox.=aproximadamente"
    ),
    anywhere=pairs(
        "etc.=etcétera Ud.=usted Uds.=ustedes Vd.=usted Vds.=ustedes EE._UU.=Estados_Unidos EE.UU.=Estados_Unidos "
        "a._C.=antes_de_Cristo a.C.=antes_de_Cristo d._C.=después_de_Cristo d.C.=después_de_Cristo p._ej.=por_ejemplo "
        "p.ej.=por_ejemplo aprox.=aproximadamente izq.=izquierda dcha.=derecha máx.=máximo mín.=mínimo"
    ),
    phones=(
        r"(?:\+34 ?)?[6789]\d(?: \d{2,3}){3}", r"(?:\+34 ?)?[6789]\d\d(?: \d{2,3}){2,3}", r"(?:\+34 ?)?[6789]\d{8}",
    ),
    phone_pairs=False,
    called=frozenset(("llame", "llama", "llamar", "teléfono", "tel", "tfno", "móvil", "fax", "whatsapp", "llámame")),
)  # fmt: skip

TABLE = LanguageTable(
    counting=COUNTING,
    ordinals=ORDINALS,
    calendar=CALENDAR,
    things=THINGS,
    feminine_noun=r"(?:as?|ci[óo]n(?:es)?|si[óo]n(?:es)?|dad(?:es)?|tud(?:es)?|umbres?|triz|trices|imagen|imágenes)$"
    r"|^(?:mujer(?:es)?|vez|veces|noches?|calles?|clases?|flor(?:es)?|tardes?|llaves?|ley(?:es)?|voz|voces|luz|luces"
    r"|manos?|fotos?|motos?|partes?|nubes?|torres?|razón|razones|series?|especies?|sedes?|cruz|cruces|radios?)$",
    masculine_noun=r"^(?:días?|mediodías?|mapas?|sofás?|papás?|\w*(?:le|ble|te|ste|gra|dio|cli|dra|oe|que|ro|plo)mas?"
    r"|\w*istas?|planetas?|cometas?|poetas?|atletas?|camaradas?|colegas?|pijamas?)$",
    no_noun=frozenset(words(
        "y e o u de del al a en con por para sin sobre entre desde hasta según tras que se es son era fue no ni el la "
        "los las lo le les un una su sus mi tu pero como si más menos cuando donde ya también hay está están ha han "
        "cada muy contra durante ante bajo antes después este esta"
    )),
    elision=(),
)  # fmt: skip
