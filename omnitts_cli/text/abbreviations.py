"""Words before a full stop that does not end a sentence, by language, in lower case and without spaces.

`titles` never end a sentence: something must follow. `numbered` do not before a number. `common` do
only before a word that often begins a sentence. `starters` are those words. `closing` end one before any capital
letter, but for the words in `zones`. `suffixes` are titles that may also stand behind a name: then they are
`common`, and `orders` are verbs that begin a sentence behind them. `short` do not end one before a small letter or a
digit: they are written inside sentences. `also_words` are those of them that are said as they stand too.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass, fields
from functools import cache, cached_property
from typing import Any

from omnitts_cli.text.short_english import ALSO_WORDS, SHORT_ENGLISH


@dataclass(frozen=True)
class ShortFormRules:
    titles: frozenset[str]
    numbered: frozenset[str]
    common: frozenset[str]
    starters: frozenset[str]
    closing: frozenset[str] = frozenset()
    zones: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()
    orders: frozenset[str] = frozenset()
    short: frozenset[str] = frozenset()
    also_words: frozenset[str] = frozenset()
    _: KW_ONLY
    ordinals: bool = False  # `3. Mai`: a full stop after a number makes it an ordinal

    @cached_property
    def known(self) -> frozenset[str]:
        """All words that stand before a full stop."""
        return self.titles | self.numbered | self.common | self.closing | self.suffixes | self.short


NAMES = [field.name for field in fields(ShortFormRules)][:-1]  # of the sets of words


def rules(titles: str, numbered: str, common: str, starters: str, *more: str, ordinals: bool = False) -> ShortFormRules:
    given = [words(part) for part in (titles, numbered, common, starters, *more)]
    return ShortFormRules(**dict(zip(NAMES, given, strict=False)), ordinals=ordinals)


def words(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


ENGLISH = rules(
    "Mr Mrs Ms Mx Dr Prof Rev Fr Hon Pres Gov Gen Col Maj Capt Cpt Cmdr Lt Sgt Sr Sra St Ste Mt Ft Sen Rep Supt Insp "
    "nr Bd Messrs Mme Mlle e.g i.e viz cf al ca approx vs v resp esp incl dept attn adj pvt cpl adm det",
    "No Nos N° Nº Art Ch Chap Fig Figs Sec Sect Vol Vols p pp para pt Eq Eqs Ex Exh Nr App Tab Rm Apt Ste cl ser thm "
    "op ep ext div suppl sched wk gr fl ln rte rt hwy bldg vv ps jct plat col cols ref refs s ss pg pgs ck chk mm exp "
    "hep err per cts ll sc appx exod lev deut josh judg chron neh eccl isa jer ezek hos zech matt rom cor gal "
    "phil thess heb "
    "jas ser",
    "etc Inc Ltd Corp Co Bros Jr Sr Esq Ph.D M.D B.A M.A B.Sc M.Sc LL.B D.C U.S U.S.A U.K U.N E.U a.m p.m A.D B.C "
    "Ave Blvd Rd Hwy Sq Bldg Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri "
    "Sat Sun ed eds repr trans est min max avg misc temp tel ext dist univ assn pub exh conf arr dep sched acct mgr "
    "asst weds alt Cal Civ Crim Stat Supp Ala Ariz Calif Colo Conn Fla Ill Mass Mich Minn Mont Nebr Nev Okla Penn "
    "Tenn Tex Wis Wyo Pub N.Y N.J N.H N.C S.C N.M N.D S.D R.I W.Va",
    "A An The He She It We They You I His Her Its Our Their My Your This That These Those There Here In On At As By "
    "For From If When While Where What Who Why How But And Or So Then Now However Although After Before Since "
    "Because Yes No Is Are Was Were Do Does Did Can Could Will Would Should Let Please Not One Some Many Most All "
    "Each Every To With",
    "a.m p.m etc",
    "EST EDT CST CDT MST MDT PST PDT ET CT MT PT GMT UTC BST CET CEST Eastern Central Mountain Pacific Greenwich "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June July August "
    "September October November December Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Wed Thu Fri Sat Sun",
    "Dr St Sr",
    "Turn Go Take Bring Come Call See Ask Open Press Send Meet Make Get Give Keep Look Use Try Tell Wait Stop Walk "
    "Drive Cross Follow Ring",
    "alt arr dep eff plat pop dist bal amt oz lb lbs tsp tbsp qt qts gal fl pk pt mi yd yds min mins sec secs cu sq "
    "incl "
    "excl exp lv feat cir def ref refs sch sched dep arr asst rev req lit reg " + " ".join(SHORT_ENGLISH),
    "ref refs def exp per " + " ".join(ALSO_WORDS),
)
GERMAN = rules(
    "Dr Prof Hr Hrn Fr Frl Dipl Ing Mag St Hl z.B d.h u.a u.U o.ä o.a s.o s.u v.a z.T z.Z zz i.d.R i.A u.ä bzw ca "
    "evtl ggf inkl exkl vgl sog bspw insb geb gest gegr verh zzgl abzgl einschl ausschl betr bes allg ehem "
    "jur phil med rer nat habil entspr rd lt Nachf Gebr Gen Hbf",
    "Nr Nrn Art Abs Abb Bd Bde Kap S Seite Tab Ziff Lfd Anm Aufl Str Tel Pos Ausg Jg H",
    "usw etc u.s.w usf u.v.m v.Chr n.Chr Jh Jhd Jhdt Mio Mrd Tsd Std min max Sek Str Pl Co Jan Feb Mrz Apr Jun Jul "
    "Aug Sep Sept Okt Nov Dez Mo Di Mi Do Fr Sa So GmbH e.V i.R a.D o.g MwSt",
    "Der Die Das Ein Eine Er Sie Es Wir Ihr Ich Du Sein Seine Ihre Mein Meine Dieser Diese Dieses Und Aber Oder Denn "
    "Doch Wenn Als Weil Dass Was Wer Wie Wo Warum Da Dann Dort Hier Heute Im In Am An Auf Bei Mit Nach Von Vor Zu Für "
    "Nicht Kein Keine Alle Man So Auch Nun Nur Ja Nein",
    ordinals=True,
)
FRENCH = rules(
    "M MM Mme Mmes Mlle Mlles Dr Pr Prof Mgr St Ste Cie p.ex c.-à-d c.à.d cf env av ap boul bd vs",
    "n no nos n° nº art chap fig p pp vol t tél réf éd al",
    "etc J.-C av.J.-C apr.J.-C S.A S.A.R.L janv févr avr juil sept oct nov déc lun mar mer jeu ven sam dim min max",
    "Le La Les L Un Une Des Il Elle Ils Elles On Je Tu Nous Vous Ce Cet Cette Ces Mon Ma Mes Son Sa Ses Leur Leurs Et "
    "Mais Ou Donc Car Si Quand Comme Que Qui Où Pourquoi Comment Dans En Sur Sous Avec Sans Pour Par Après Avant Puis "
    "Alors Ici Là Oui Non Ne C J À Au Aux",
)
SPANISH = rules(
    "Sr Sra Srta Sres Sras Dr Dra Drs Prof Profa Lic Ing Arq D Dña Excmo Excma Ilmo Mons Gral Cnel Tte Sto Sta p.ej "
    "EE Ud Uds Vd Vds v.gr cf aprox vs avda",
    "núm nº n° pág págs art cap fig vol t tel",
    "etc EE.UU S.A S.L a.C d.C a.m p.m Cía ene feb mar abr may jun jul ago sep sept oct nov dic Jr máx mín Av",
    "El La Los Las Un Una Unos Unas Él Ella Ellos Ellas Yo Tú Nosotros Usted Ustedes Este Esta Esto Ese Esa Eso Su Sus "
    "Mi Mis Y Pero O Si Cuando Como Que Quien Donde Porque Por Para En Con Sin Sobre Desde Hasta Después Antes "
    "Entonces Aquí Allí Hoy Sí No Se Lo Le Al Del",
)
PORTUGUESE = rules(
    "Sr Sra Srs Sras Srta Dr Dra Drs Prof Profa Profª Eng Exmo Exma Ilmo D Dom Pe Fr Gen Cel Sto Sta p.ex cf "
    "aprox vs V.Exa",
    "núm nº pág págs pag art cap fig vol n tel ed",
    "etc S.A Ltda Cia a.C d.C a.m p.m jan fev mar abr mai jun jul ago set out nov dez Jr máx mín Av R EUA",
    "O A Os As Um Uma Ele Ela Eles Elas Eu Tu Nós Você Vocês Este Esta Isto Esse Essa Isso Seu Sua Meu Minha E Mas "
    "Ou Se Quando Como Que Quem Onde Porque Por Para Em No Na Nos Nas Com Sem Sobre Desde Até Depois Antes Então "
    "Aqui Hoje Sim Não Ao Do Da",
)
ITALIAN = rules(
    "Sig Sigg Sig.ra Sig.na Sigra Signa Dott Dott.ssa Dr Dr.ssa Prof Prof.ssa Ing Avv Arch Geom Sen Mons S Ss "
    "Gent Egr Spett p.es ad.es cfr ca cf vs v",
    "n nn nr n° nº art artt cap capp fig figg pag pagg p vol voll tel",
    "ecc etc S.p.A S.r.l a.C d.C a.m p.m gen feb mar apr mag giu lug ago set sett ott nov dic max min V.le P.za C.so",
    "Il Lo La I Gli Le L Un Uno Una Egli Lui Lei Loro Io Tu Noi Voi Questo Questa Questi Quello Quella Suo Sua Mio "
    "Mia E Ed Ma O Se Quando Come Che Chi Dove Perché Per In Nel Nella Con Senza Su Da Dal Dopo Prima Poi Allora Qui "
    "Oggi Sì No Non Al Del Si",
)
RUSSIAN = rules(
    "г-н г-жа гр тов проф акад доц инж д-р св ул пер пл просп пр-т бул наб кв стр корп обл респ т.е т.к т.н т.ч "
    "напр см ср ок пос дер р-н мин-во ген полк кап лейт зам нач гл",
    "№ рис табл гл с стр ст п пп т тт вып кн ч изд ред",
    "т.д т.п им др пр г гг в вв н.э до.н.э руб коп тыс млн млрд трлн чел кг км см мм сек мин час янв фев февр мар "
    "апр июн июл авг сент окт нояб дек пн вт ср чт пт сб вс",
    "Он Она Оно Они Я Ты Мы Вы Это Этот Эта Эти Тот Та Те Его Её Их Мой Моя Наш Наша Ваш И А Но Или Если Когда Как Что "
    "Кто Где Почему Зачем В Во На По Под Над От До Из За С Со К Ко У О Об После Перед Потом Тогда Здесь Там Сегодня Да "
    "Нет Не Все Всё",
)
GERMAN_DATE = re.compile(
    r"(?:Januar|Februar|März|Mai|Juni|Juli|Oktober|Dezember)\b|(?:April|August|September|November)\b(?= \d)"
)
GERMAN_BEFORE = re.compile(r"\b(?:der|dem|des|das|im|vom|zum|zur) \d+$")
"""What shows that a text of unknown language has a German ordinal: the month behind it, or the article before it."""

BY_LANGUAGE = {
    "en": ENGLISH, "de": GERMAN, "fr": FRENCH, "es": SPANISH, "pt": PORTUGUESE, "it": ITALIAN, "ru": RUSSIAN,
    "zh": ENGLISH, "ja": ENGLISH, "ko": ENGLISH,
}  # fmt: skip


@cache
def rules_for(language: str | None) -> ShortFormRules:
    """The rules of a language; of all of them together where it is not known."""
    if language is not None:
        return BY_LANGUAGE.get(language, ENGLISH)
    every = (ENGLISH, GERMAN, FRENCH, SPANISH, PORTUGUESE, ITALIAN, RUSSIAN)
    joined: dict[str, Any] = {name: frozenset().union(*(getattr(known, name) for known in every)) for name in NAMES}
    return ShortFormRules(**joined)
