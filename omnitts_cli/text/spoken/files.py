"""Addresses of pages and people, paths and names of files, which are read with their dots and strokes."""

import re

from omnitts_cli.text.numerals import digits, pairs, whole
from omnitts_cli.text.spoken import english
from omnitts_cli.text.spoken.rules import Match, Rule

SIGNS = {
    ".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", ":": "colon", "?": "question mark",
    "=": "equals", "&": "and", "#": "hash", "%": "percent", "~": "tilde", "+": "plus", "\\": "backslash", "*": "star",
}  # fmt: skip
ENDINGS = {
    "md": "MD", "txt": "txt", "csv": "CSV", "tsv": "TSV", "pdf": "PDF", "js": "JS", "ts": "TS", "jsx": "JSX",
    "tsx": "TSX", "html": "HTML", "htm": "HTM", "css": "CSS", "xml": "XML", "jpg": "jpeg", "jpeg": "jpeg",
    "mp3": "MP three", "mp4": "MP four", "gz": "GZ", "tgz": "TGZ", "exe": "EXE", "dll": "DLL", "docx": "DOCX",
    "xls": "XLS", "xlsx": "XLSX", "png": "PNG", "svg": "SVG", "h": "H", "c": "C", "cpp": "CPP", "rs": "RS",
    "rb": "RB", "sh": "SH", "sql": "SQL", "py": "PY", "yml": "YML", "cfg": "config", "conf": "config", "env": "env",
    "so": "SO", "ini": "ini", "log": "log", "go": "go", "json": "json", "toml": "toml", "yaml": "yaml", "zip": "zip",
    "tar": "tar", "doc": "doc", "gif": "gif", "wav": "wav", "flac": "flac", "ogg": "ogg", "out": "out",
    "lock": "lock", "bak": "back", "tmp": "temp", "java": "java", "php": "PHP", "swift": "swift", "pptx": "PPTX",
    "ppt": "PPT", "epub": "E pub", "srt": "SRT", "vtt": "VTT", "deb": "deb", "rpm": "RPM", "iso": "iso",
    "img": "image", "bin": "bin", "bat": "bat", "xz": "XZ", "bz2": "BZ two", "ipynb": "IPYNB", "tex": "tech",
    "bib": "bib", "service": "service", "pem": "pem", "key": "key", "db": "DB", "rst": "RST", "whl": "wheel",
    "mov": "mov", "avi": "AVI", "mkv": "MKV", "webp": "web P", "woff": "woff", "app": "app", "dmg": "DMG",
    "apk": "APK",
}  # fmt: skip
DOMAINS = "com|org|net|edu|gov|io|co|uk|de|fr|ai|dev|app|info|biz|tv|me|us|ca|eu|int|mil"
ENDING = "|".join(sorted((re.escape(ending) for ending in ENDINGS), key=len, reverse=True))
PART = re.compile(r"[A-Za-z]+|\d+|[^A-Za-z0-9]")
DIRECTORIES = {
    "usr": "user", "tmp": "temp", "src": "source", "lib": "lib", "config": "config", "bin": "bin", "dev": "dev",
    "opt": "opt", "var": "var", "www": "www", "docs": "docs", "README": "readme", "id": "ID",
    "CHANGELOG": "changelog", "LICENSE": "license", "IMG": "IMG", "TODO": "to do", "NET": "net",
}  # fmt: skip


def address(found: Match) -> str:
    """A page or a mailbox; digits of a mailbox one by one."""
    text = re.sub(r"^(?:https?|ftp)://", "", found[0]).rstrip("/")
    words = re.sub(r"[^A-Za-z0-9]", lambda sign: f" {SIGNS.get(sign[0], '')} ", text)
    return re.sub(r"\d+", lambda run: f" {number(run[0])} ", words)


def number(run: str) -> str:
    """A number inside a name: a year or a small one as it is, others digit by digit."""
    return whole(run) if len(run) < 3 or re.fullmatch("[1-9]000?", run) else digits(run)


def path(found: Match) -> str:
    """~/.config/omnitts, ./run.sh, C:\\Users."""
    return read_name(found[0])


def read_name(name: str) -> str:
    """Each part of a path or a file's name, the signs between them by their names."""
    stem, dot, ending = name.rpartition(".")
    if dot and ending.lower() in ENDINGS and stem and not stem.endswith("/"):
        return f"{parts_of(stem)} dot {ENDINGS[ending.lower()]}".strip()
    return parts_of(name)


def parts_of(name: str) -> str:
    said = []
    if name.startswith("/etc"):
        name, said = name[4:], ["slash", "etsy"]
    for part in PART.findall(name):
        if part.isdecimal():
            said.append(pairs(int(part)) if len(part) == 4 and part[0] != "0" else number(part))
        else:
            said.append(SIGNS.get(part) or DIRECTORIES.get(part) or (part.upper() if len(part) == 1 else lowered(part)))
    return " ".join(said)


def lowered(part: str) -> str:
    if shell := re.fullmatch("(bash|zsh|vim|npm|inputrc|eslint|pylint|conda|screen)rc", part):
        return f"{shell[1]} RC"
    if part in english.LETTERS:
        return part.upper()
    return part.lower() if part[1:].islower() else part


def file(found: Match) -> str | None:
    name = found[0]
    if re.fullmatch(r"[\d.]+|(?:[A-Z]\.)+[A-Z]|[apo]\.c", name) and (
        name[-1] != "c" or found.string[found.end() :][:1] == "."
    ):
        return None
    return read_name(name)


def query(found: Match) -> str:
    """?id=5 after a path."""
    return f" question mark {parts_of(found['query'])}"


def hidden(found: Match) -> str:
    """.gitignore, .NET, a .zip file."""
    name = found["name"]
    return f"dot {ENDINGS.get(name.lower()) or parts_of(name)}"


def parent(found: Match) -> str:
    """cd .. is dot dot; elsewhere two dots are a pause."""
    command = re.search(r"(?:\A|\b(?:cd|ls|in|to|from|of|is|and|with|use)) \Z", found.string[: found.start()][-6:])
    return "dot dot" if command or not found.string.strip(". ") else ","


STARTERS = (
    "i it its we you he she they the and but so if ok okay get please pls plz thanks kindly might then that this "
    "no yes "
    "just my let call what when how why are was do dont did see hope will can could would not now have u im"
).split()
"""Words that begin a sentence, where the space after a full stop is missing."""


RULES: tuple[Rule, ...] = (
    Rule("a", r"\b(?:https?|ftp)://[^\s<>\"')]{0,2000}[\w/]|\bwww\.[\w.-]{1,200}\w(?:/[\w./?=&%-]{0,200}\w)?", address,
         words=("http", "https", "ftp", "www")),
    Rule("a0+_-", r"(?<![\w+-])[\w.+-]{1,64}@[\w-]{1,64}(?:\.\w{1,24}){1,8}(?:/[\w./-]{0,200}\w)?", address),
    Rule("a", rf"(?<![\w.@-])(?:[\w-]{{1,40}}\.){{1,4}}(?:{DOMAINS})(?:/[\w./?=&%-]{{0,200}}\w)?(?![\w-])", address),
    Rule("a", r"\bfile://[\w./%-]{1,400}\w", lambda found: f"file colon slash slash {read_name(found[0][7:])}",
         words=("file",)),
    Rule("a", r"\b[A-Za-z]:\\[\w\\. -]{0,200}\w", path),
    Rule("~./", r"(?<![\w.~/])(?:~/|\.\.?/|/(?=[A-Za-z_.][\w.-]*/|[a-z]{3,}))(?:[\w.~+@*-]*[\w*~+-])?"
         r"(?:/[\w.~+@*-]*[\w*+-]){0,40}/?",
         path),
    Rule("a", r"(?<![\w./-])(?:[\w-]{1,40}/){1,20}[\w-]{1,60}(?:\.[\w-]{1,20}){0,3}\.(?i:" + ENDING + r")(?![\w.])",
         path),
    Rule("a", r"(?<![\w./-])(?:[a-z][\w-]{1,40}/){2,20}[\w-]{1,60}(?![\w/])", path),
    Rule("a0", r"(?<![\w./-])[A-Za-z0-9][\w-]{0,60}(?:\.[\w-]{1,30}){0,3}\.(?i:" + ENDING + r")(?![\w-]|\.\w)",
         file),
    Rule("?", r"\?(?P<query>\w{1,40}=[\w=&%.+-]{0,200})", query),
    Rule("*", r"(?<!\S)\*\.(?P<ending>[a-z]\w{0,5})\b",
         lambda found: f"star dot {ENDINGS.get(found['ending'], found['ending'])}"),
    Rule(".", r"(?<![\w.)\]'\"’])\.(?P<name>[A-Za-z][\w-]{1,40}(?:\.\w{1,10}){0,2})(?![\w@])", hidden),
    Rule(".", r"(?<=[A-Za-z])\.(?=\d)", lambda found: " dot "),
    Rule(".", rf"(?<=[a-z]{{2}})\.(?=(?:{'|'.join(STARTERS)})\b[ ,'’])", lambda found: ". "),
    Rule(".", r"(?<=[a-z0-9]{2})\.(?=[a-z]{2})", lambda found: " dot "),
    Rule(".", r"(?<!\S)\.\.(?=[\s,]|$)", parent),
)  # fmt: skip
