"""What the tables say: interpose/symbols.def, interpose/exceptions.def and scripts/census.harmless. For census and answers."""
import fnmatch
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SYMBOLS = os.path.join(ROOT, "interpose", "symbols.def")
EXCEPTIONS = os.path.join(ROOT, "interpose", "exceptions.def")
HARMLESS = os.path.join(ROOT, "scripts", "census.harmless")

ROW = re.compile(r"^HR_SYMBOL\(([^,]*),[^,]*, *(\w+),")
TEXT_ROW = re.compile(r'^(HR_FAMILY|HR_ANSWER|HR_EXCEPTION)\(((?:[^"()]|"(?:[^"\\]|\\.)*")*)\)', re.M)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


class TableError(Exception):
    pass


class Entry:
    """A name or a pattern, and the glibc versions that have it."""

    def __init__(self, name, reason, since=None, until=None, optional=False):
        self.name, self.reason, self.since, self.until, self.optional = name, reason, since, until, optional
        self.is_pattern = any(c in name for c in "*[")

    def matches(self, name):
        return fnmatch.fnmatchcase(name, self.name)

    def expected(self, version):
        return not (self.optional or (self.since and version < self.since) or (self.until and version > self.until))


def version_of(text):
    if not re.fullmatch(r"\d+\.\d+", text):
        raise TableError("no glibc version: " + text)
    return tuple(int(part) for part in text.split("."))


def entries_of(text, reason):
    """Entries of one line or string: names, with `since 2.38:`, `until 2.33:`, `optional:` before those they are about."""
    found, since, until, optional = [], None, None, False
    words = text.split()
    while words:
        word = words.pop(0)
        if word in ("since", "until"):
            if not words or not words[0].endswith(":"):
                raise TableError("`%s` wants a version and a colon: %s" % (word, text))
            version = version_of(words.pop(0)[:-1])
            since, until, optional = (version, None, False) if word == "since" else (None, version, False)
        elif word == "optional:":
            since, until, optional = None, None, True
        elif re.fullmatch(r"[\w*\[\]-]+", word):
            found.append(Entry(word, reason, since, until, optional))
        else:
            raise TableError("neither a name nor a pattern: " + word)
    return found


def read_harmless(path=HARMLESS):
    """[(reason, [Entry])]"""
    sections = []
    with open(path) as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line.startswith("["):
                if not line.endswith("]"):
                    raise TableError("a reason is [in brackets]: " + line)
                sections.append((line[1:-1], []))
            elif line:
                if not sections:
                    raise TableError("a name before the first reason: " + line)
                sections[-1][1].extend(entries_of(line, sections[-1][0]))
    return sections


class Family:
    def __init__(self, name):
        self.name, self.symbols, self.answer, self.tests, self.answers = name, [], None, "", []


class Exception_:
    def __init__(self, names, what, test):
        self.entries, self.what, self.test = entries_of(names, what), what, test


def text_rows(path):
    """(macro, [bare words before the strings], [strings]); strings side by side are one."""
    with open(path) as file:
        text = file.read()
    for match in TEXT_ROW.finditer(text):
        words, strings = [], []
        for field in re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', match.group(2)):
            parts = STRING.findall(field)
            if parts:
                strings.append("".join(parts).replace('\\"', '"'))
            else:
                words.append(field.strip())
        yield match.group(1), words, strings


def read_symbols(path=SYMBOLS):
    """{family name: Family} in the order of the file."""
    families = {}
    with open(path) as file:
        for line in file:
            match = ROW.match(line)
            if match:
                families.setdefault(match.group(1), Family(match.group(1))).symbols.append(match.group(2))
    known = {name for family in families.values() for name in family.symbols}
    for macro, words, strings in text_rows(path):
        if len(words) != 1 or (macro, len(strings)) not in (("HR_FAMILY", 2), ("HR_ANSWER", 1)):
            raise TableError("a row of %s with other fields: %s" % (macro, words))
        if macro == "HR_FAMILY":
            if words[0] not in families:
                raise TableError("HR_FAMILY(%s): no symbol is of that family" % words[0])
            families[words[0]].answer, families[words[0]].tests = strings
        else:
            if words[0] not in known:
                raise TableError("HR_ANSWER(%s): no such row" % words[0])
            owner = next(family for family in families.values() if words[0] in family.symbols)
            owner.answers.append((words[0], strings[0]))
    return families


def read_exceptions(path=EXCEPTIONS):
    rows = []
    for macro, words, strings in text_rows(path):
        if macro != "HR_EXCEPTION" or words or len(strings) != 3:
            raise TableError("%s: a row with other fields than names, answer, test: %s" % (os.path.basename(path), strings))
        rows.append(Exception_(*strings))
    return rows
