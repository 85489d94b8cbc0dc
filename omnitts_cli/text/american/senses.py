"""Words whose reading depends on what they mean here, not only on their part of speech: a bass guitar, a large bass.

A rule names a reading of `training/own_words.txt` or of the dictionary, and looks for words that give it away: near
the word, right before it, or right after it. The first rule that fits wins; without one, the part of speech decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

NEAR = 9  # words on either side


@dataclass(frozen=True)
class Cue:
    """One reading and its signs. With `both`, the word before and the word after must fit."""

    reading: str
    near: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    both: bool = False

    def fits(self, around: frozenset[str], before: str, after: str) -> bool:
        if self.both:
            return before in self.before and after in self.after
        return before in self.before or after in self.after or bool(self.near and self.near & around)


def cue(reading: str, near: str = "", before: str = "", after: str = "", both: bool = False) -> Cue:
    return Cue(reading, frozenset(near.split()), frozenset(before.split()), frozenset(after.split()), both)


ARTICLES = "the a an this that his her my our your their its every each some any no"
SUBJECTS = "i you we they who"
MODALS = (
    "to will would can could shall should may might must let do does did don't doesn't didn't can't won't couldn't "
    "wouldn't shouldn't cannot i'll you'll he'll she'll we'll they'll i'd please lets let's not never"
)
HAVING = (
    "have has had having i've you've we've they've haven't hasn't hadn't was were is are be been being am he's she's "
    "it's you're they're we're i'm wasn't weren't isn't"
)
BEING = "is are was were be been being am i'm it's he's she's they're we're you're isn't aren't wasn't weren't"
ADVERBS = "also already just never ever always often recently once only since been not carefully first then"
PEOPLE = "man men woman women people person couple mother father parents aunt uncle queen king gentleman lady patient"
DIGITS = (
    "zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand"
)
ENDS = ". , ! ? |"

RULES: dict[str, tuple[Cue, ...]] = {
    "lead": (
        cue("METAL", "pipe pipes paint plumbing bullet bullets toxic pencil pencils copper zinc mercury tin molten ore "
            "arsenic poisoning smelter plumber solder contaminated roofs sinker sinkers cadmium alloy metal metals",
            after="pipe pipes paint poisoning bullet bullets pencil pencils weight weights apron crystal acid battery "
            "shot roof mine mines level levels dust exposure solder content ore"),
        cue("METAL", before="of with contains containing", after=f"{ENDS} or and", both=True),
        cue("METAL", before="molten heavy soft melted grey gray"),
    ),
    "leads": (cue("METAL", "pencil refills"),),
    "bass": (
        cue("FISH", "fish fishing fisherman fishermen angler anglers lake river pond stream caught catch hook trout "
            "perch bait lure reel largemouth smallmouth grilled fried fillet fillets tuna salmon cod sea boat weighed",
            before="sea striped largemouth smallmouth"),
    ),
    "bow": (
        cue("DEFAULT", "arrow arrows violin violinist cello fiddle string strings ribbon tie hair archer hunter "
            "quiver"),
        cue("VERB", before=f"{SUBJECTS} {MODALS} actors dancers and", after="to before down low deeply politely "
            "out in and when as at their his her my our your", both=True),
        cue("VERB", "ship boat deck stern hull vessel sail sailor sailors curtain audience applause knees yacht took "
            "take takes taking"),
        cue("VERB", after="down", before=MODALS),
        cue("DEFAULT", before=f"{ARTICLES} red blue"),
    ),
    "bows": (cue("VERB", "stage audience curtain", after="to before down out low"),
             cue("DEFAULT", "arrows violins ribbons hair", before=ARTICLES)),
    "row": (cue("QUARREL", "argument argued quarrel shouting shouted angry noisy furious fierce neighbors neighbours "
                "bitter heated loud diplomatic erupted", after="broke erupted"),),
    "rows": (cue("QUARREL", "argument quarrels shouting angry noisy bitter heated"),),
    "rowing": (cue("QUARREL", "argument quarrels shouting angry neighbors neighbours"),),
    "sow": (cue("NOUN", "pig pigs piglets piglet boar farmer's pen sty litter", before=""),
            cue("DEFAULT", before=f"{SUBJECTS} {MODALS} farmers", after="seed seeds the wheat corn")),
    "does": (cue("DEER", "deer buck bucks fawn fawns stag stags herd antlers", before="two three several the many"),),
    "dove": (cue("VERB", before="he she it they we i who swimmer submarine plane whale boy girl diver goalkeeper",
                 after="into in under deep down off from through headfirst to for beneath below"),),
    "number": (cue("NUMB", before="grew felt feel even became got getting grow", after=ENDS, both=True),
               cue("NUMB", "cold fingers toes numb lips", before="grew felt even became got getting")),
    "wound": (
        cue("VBD", after="up down around through its back itself round tightly"),
        cue("DEFAULT", before=f"{ARTICLES} open deep old gunshot head flesh stab knife bullet bleeding fresh"),
        cue("VBD", before=f"he she it they we i who {HAVING} path road river trail",
            after="the a his her its their my our yarn wire thread string", both=True),
        cue("DEFAULT", "nurse doctor blood bandage healed infected"),
    ),
    "minute": (
        cue("ADJ", before="so very too extremely incredibly almost quite most", after=f"{ENDS} that and to as amount "
            "amounts detail details particles quantities traces differences changes", both=True),
        cue("ADJ", before="is was are were", after=ENDS, both=True),
        cue("ADJ", after="amount amounts detail details particle particles quantity quantities trace traces "
            "difference differences crack cracks organisms variations fraction"),
        cue("DEFAULT"),
    ),
    "aged": (
        cue("ADJ", before=f"{ARTICLES} middle", after=PEOPLE, both=True),
        cue("ADJ", before="the", after=f"{ENDS} and are need have", both=True),
    ),
    "moped": (cue("VERB", before=f"he she they i we who and {HAVING}", after=f"around about {ENDS} all for in",
                  both=True), cue("DEFAULT")),
    "learned": (cue("ADJ", before=f"{ARTICLES} very most so", after="professor man men scholar scholars judge friend "
                    "colleague society people person doctor gentleman counsel discussion journal paper treatise woman "
                    "book books men's debate", both=True), cue("DEFAULT")),
    "blessed": (cue("ADJ", before="the a this every that our", after="relief virgin mother event peace sacrament "
                    "silence day thing memory isle trinity hope one are lamp quiet", both=True),),
    "resume": (cue("NOUN", before="your my his her their a the our updated", after=f"{ENDS} to and with for by on "
                   "was is looks", both=True), cue("NOUN", "job employer interview cover")),
    "resumes": (cue("NOUN", "job jobs employer applicants candidates hundreds received"),),
    "live": (
        cue("DEFAULT", after="broadcast music concert show shows band bands audience television tv stream streaming "
            "performance performances wire wires ammunition animals bait chat coverage album recording video event "
            "events bullets rounds chicken lobster on", before="streamed broadcast went performed recorded goes shown"),
        cue("VERB", before=f"{SUBJECTS} {MODALS} people children families who and", after=""),
        cue("VERB", after="in near with by together alone here there under among at like longer without up happily"),
    ),
    "lives": (
        cue("VERB", before="he she it who everybody everyone someone that uncle aunt brother sister mother "
            "father friend family", after="in near with by alone here there under among at next on up"),
        cue("DEFAULT", before="their our your my his her own the many past nine two three save saved human"),
        cue("VERB", after="in near with by alone here there under among next"),
    ),
    "close": (
        cue("VERB", before=f"{MODALS} {SUBJECTS} and", after="the a your my his her its their this that all down up "
            f"off out every when early at on both {ENDS}", both=True),
        cue("DEFAULT", after="to friend friends enough by together call relative relatives attention behind range look "
            "examination contact watch ties at", before="very so too how is are was were came come stay sit stand get "
            "got as quite"),
        cue("VERB", before="the", after="of", both=True),
    ),
    "use": (
        cue("NOUN", before="of no the in for any much some little best good this its heavy daily better wide common "
            "personal public commercial fair a free first long land drug energy water internet single what actual "
            "improper extensive"),
    ),
    "record": (cue("VERB", before=f"to {MODALS} {SUBJECTS}", after="the a your my his her this every all it each "
                   "what how some their new"),),
    "present": (
        cue("VERB", before=f"{MODALS} {SUBJECTS} me us him them", after="the a your my his her this itself "
            "themselves our their an "
            "it him them evidence", both=True),
        cue("DEFAULT"),
    ),
    "perfect": (cue("VERB", before=MODALS, after="the a his her their its this my our your it", both=True),
                cue("DEFAULT")),
    "content": (cue("DEFAULT", before="looked feel felt seemed was were is are be am i'm quite perfectly seems feels "
                    "seem to", after=f"{ENDS} with to after in as just and", both=True),
                cue("DEFAULT", after="with"), cue("NOUN")),
    "object": (cue("VERB", after="to strongly"), cue("VERB", before=f"{SUBJECTS} {MODALS}", after=ENDS, both=True)),
    "permit": (cue("DEFAULT", before=f"{ARTICLES} building work parking fishing travel residence"),),
    "refuse": (cue("NOUN", "garbage trash rubbish collection collected bin bins dump truck household",
                   before="the of household"),),
    "invalid": (cue("NOUN", before="poor elderly bedridden helpless"),
                cue("NOUN", before="an a the", after=f"{ENDS} who for and in since was", both=True), cue("DEFAULT")),
    "compact": (cue("VERB", before=MODALS, after="the it a this them soil trash snow", both=True), cue("DEFAULT")),
    "absent": (cue("DEFAULT"),),
    "baton": (cue("CITY", after="rouge"),),
    "des": (cue("CITY", after="moines plaines"),),
    "point": (cue("DECIMAL", before=DIGITS, after=DIGITS, both=True),),
    "buffet": (cue("VERB", before=f"{MODALS} waves winds", after="the us them", both=True), cue("DEFAULT")),
    "entrance": (cue("VERB", before=MODALS, after="the us them you me him her audiences", both=True), cue("DEFAULT")),
    "incense": (cue("VERB", before=MODALS, after="the him her them us voters", both=True), cue("DEFAULT")),
    "console": (cue("VERB", before=f"{MODALS} and", after="the him her them me us his herself himself their a you",
                    both=True), cue("DEFAULT")),
    "desert": (cue("VERB", before="who soldiers"),
               cue("VERB", before=MODALS, after="his her their the my us me him them you it a", both=True),
               cue("DEFAULT")),
    "axes": (cue("AXE", "wood chop chopped lumberjack lumberjacks trees tree swords sharp viking firefighters hatchets "
                 "spears handles"), cue("DEFAULT")),
    "bases": (cue("BASE", "military army air naval baseball stolen loaded runner team covered acids acid"),),
    "nice": (cue("CITY", "france french riviera cannes monaco marseille lyon"),),
    "reading": (cue("CITY", "england pennsylvania berkshire oxford slough railroad", before=""),),
    "job": (cue("BIBLE", "bible psalms testament god prophet patience genesis", before="of"),),
    "slough": (cue("SHED", before=f"to {MODALS}", after="off"), cue("SHED", after="off")),
    "sewer": (cue("SEAMSTRESS", "needle thread fabric dress quilt sewing"),),
    "routed": (cue("ROUT", "army enemy troops defeated battle cavalry"),),
    "putting": (cue("GOLF", "golf green golfer hole tee"),),
    "pate": (cue("FOOD", "goose duck liver crackers toast bread wine cheese appetizer"),),
    "rose": (cue("WINE", "wine glass bottle chardonnay bottles winery"), ),
    "expose": (cue("NOUN", "journalist newspaper magazine corruption scandal wrote published",
                   before="an the shocking"),),
}  # fmt: skip

CAPITAL = frozenset({"nice", "reading", "job"})
"""Senses of a name: only with a capital inside a sentence."""

PAST_TIMES = frozenset(
    "yesterday ago last earlier previously once already recently was were had did said told went came gave took made "
    "saw heard knew thought found got wrote stood sat then aloud".split()
)
HABITS = frozenset("every usually always often sometimes daily rarely never tomorrow each can will do don't".split())


def read(words: Sequence[str], at: int) -> str:
    """Present or past, which look alike."""
    before = before_adverbs(words, at)
    if before in set(HAVING.split()):
        return "VBD"
    if before in set(MODALS.split()):
        return "DEFAULT"
    around = frozenset(word.lower() for word in words[max(0, at - NEAR) : at + NEAR + 4])
    if before in ("he", "she", "it", "everyone", "everybody", "someone", "who"):
        return "VBD"
    if before in SUBJECTS.split():
        if around & HABITS and not around & {"yesterday", "ago", "was", "were", "had"}:
            return "DEFAULT"
        return "VBD" if around & PAST_TIMES else "DEFAULT"
    if before in ("|", ".", "!", "?", ",", "and", "or", "but", "then"):
        return "VBD" if around & {"was", "were", "had", "yesterday", "ago", "sat", "opened"} else "DEFAULT"
    if before in ("well", "widely", "a", "the"):
        return "VBD" if before in ("well", "widely") else "DEFAULT"
    if before.endswith("s") and not before.endswith("ss"):
        return "VBD" if around & PAST_TIMES else "DEFAULT"
    return "VBD" if before[0].isalpha() else "DEFAULT"


def used(words: Sequence[str], at: int) -> str:
    """used to (the habit, or accustomed) against used (the verb)."""
    after = [word.lower() for word in words[at + 1 : at + 3]]
    if after[:1] != ["to"]:
        return "DEFAULT"
    accustomed = after[1:2] and (after[1] in ARTICLES.split() or after[1].endswith("ing") or after[1] in
                                 {"it", "him", "them", "me", "you", "us", ".", ","})  # fmt: skip
    if before_adverbs(words, at) in BEING.split() and not accustomed:
        return "DEFAULT"
    return "VBD"


def before_adverbs(words: Sequence[str], at: int) -> str:
    """The word before, adverbs apart."""
    at -= 1
    skipped = set(ADVERBS.split()) - {"not", "never"}
    while at >= 0 and (words[at].lower() in skipped or words[at].endswith("ly")):
        at -= 1
    return words[at].lower() if at >= 0 else "|"


def by_rules(words: Sequence[str], at: int) -> str | None:
    """The reading that the rules of this word name."""
    word = words[at].lower()
    before = words[at - 1].lower() if at else "|"
    after = words[at + 1].lower() if at + 1 < len(words) else "|"
    if word in CAPITAL and (words[at].islower() or before in ".!?|"):
        return None
    near = frozenset(w.lower() for w in (*words[max(0, at - NEAR) : at], *words[at + 1 : at + 1 + NEAR]))
    for rule in RULES[word]:
        if not (rule.near or rule.before or rule.after) or rule.fits(near, before, after):
            return rule.reading
    return None


SENSES: dict[str, Callable[[Sequence[str], int], str | None]] = dict.fromkeys(RULES, by_rules)
SENSES |= {"read": read, "reread": read, "used": used}
