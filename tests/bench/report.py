"""build/bench/results.json as a document (`sh scripts/bench --write docs/benchmarks.md` fills the block between the markers)
and as plots (build/bench/*.png, where matplotlib is there)."""
import os

import lab
from harness import paths, proc

BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
OWN = ("name", "note", "value", "unit", "files_per_s", "mb_per_s", "seconds", "first_s", "gets", "lists", "heads")
AIMS = ("Aims", ("Bench", "Measure", "Aim", "Measured", "Met"))
HEAD = ("", "Rate", "Seconds", "First batch, s", "GET / LIST / HEAD", "")
ORDER = ("epochs-30", "epochs-110", "large-30", "large-110", "small", "small-50", "small-30", "small-110", "budget", "known",
         "counts", "listing", "index", "overhead")


def number(value):
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (list, tuple)):
        return " / ".join(number(one) for one in value)
    if isinstance(value, (int, float)):
        if abs(value) >= 100 or value == int(value):
            return "{:,.0f}".format(value)
        return "%.3g" % value
    return str(value).replace("|", "\\|")


def spread(values):
    """Median, and the range where there are several runs."""
    if not isinstance(values, list):
        return number(values)
    middle = number(lab.median(values))
    return middle if len(values) == 1 else "%s (%s to %s)" % (middle, number(min(values)), number(max(values)))


def rate_of(row):
    for name, unit in (("files_per_s", "files/s"), ("mb_per_s", "MB/s"), ("value", row.get("unit", ""))):
        if name in row:
            return ("%s %s" % (number(row[name]), unit)).strip()
    return ""


def cells(row):
    requests = " / ".join(number(row[name]) for name in ("gets", "lists", "heads") if name in row)
    rest = ["%s %s" % (name.replace("_", " "), number(value)) for name, value in row.items() if name not in OWN]
    return [row["name"].replace("|", "\\|"), rate_of(row), spread(row.get("seconds", "")), spread(row.get("first_s", "")), requests,
            "; ".join(rest + ([row["note"].replace("|", "\\|")] if row.get("note") else []))]


def table(head, rows):
    """Without the columns that no row fills."""
    kept = [at for at in range(len(head)) if at == 0 or any(row[at] for row in rows)]
    text = ["| %s |" % " | ".join(head[at] for at in kept), "|%s" % ("---|" * len(kept))]
    return "\n".join(text + ["| %s |" % " | ".join(row[at] for at in kept) for row in rows]) + "\n"


def ordered(pages):
    return sorted(pages, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def aims_of(name, page):
    return [[name, one["measure"].replace("|", "\\|"), one["aim"], number(one["value"]), "yes" if one["met"] else "**no**"]
            for one in page["aims"]]


def section(page):
    text = ["`%s`: %s. %d cores, load %s at the start, %s; %d s.\n" % (
        page["command"], page["settings"], page["cores"], page["load"][0], page["when"][:16].replace("T", " "), page["took_s"])]
    if page["rows"]:
        head = HEAD if any("value" not in row for row in page["rows"]) else ("Measure", "Value") + HEAD[2:]
        text.append(table(head, [cells(row) for row in page["rows"]]))
    text += ["%s\n" % note for note in page["notes"]]
    if page.get("text"):
        text.append("```\n%s\n```\n" % page["text"].rstrip())
    return "\n".join(text)


def written(block):
    """What a document has: rows of aims and sections by bench."""
    sections = dict(part.split("\n", 1) for part in ("\n" + block).split("\n### ")[1:])
    aims = {}
    for line in sections.pop(AIMS[0], "").strip().splitlines()[2:]:
        row = line.strip("| ").split(" | ")
        aims.setdefault(row[0], []).append(row)
    return aims, {name: text.strip("\n") + "\n" for name, text in sections.items()}


def document(pages, block=""):
    """Benches without results keep what the block says of them."""
    aims, sections = written(block)
    aims.update((name, aims_of(name, page)) for name, page in pages.items())
    sections.update((name, section(page)) for name, page in pages.items())
    rows = [row for name in ordered(aims) for row in aims[name]]
    text = ["### %s\n" % AIMS[0], table(AIMS[1], rows)] if rows else []
    for name in ordered(sections):
        text += ["### %s\n" % name, sections[name]]
    return "\n".join(text)


def write(path):
    with open(path) as file:
        text = file.read()
    proc.expect(text.count(BEGIN) == 1 and text.count(END) == 1, "%s has no markers" % path)
    before, _, rest = text.partition(BEGIN)
    block, _, behind = rest.partition(END)
    with open(path, "w") as out:
        out.write(before + BEGIN + "\n" + document(lab.load(), block) + "\n" + END + behind)


def plots(pages):
    """One picture an epochs page: files a second of everyone."""
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: no plots")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    for name in [one for one in ordered(pages) if one.startswith("epochs-")]:
        rows = [row for row in pages[name]["rows"] if row.get("files_per_s")]
        figure, axes = pyplot.subplots(figsize=(9, 0.3 * len(rows) + 1))
        axes.barh([row["name"] for row in rows][::-1], [row["files_per_s"] for row in rows][::-1],
                  color=["#3a7" if row["name"].startswith("headrace") else "#999" for row in rows][::-1])
        axes.set_xscale("log")
        axes.set_xlabel("files a second")
        axes.set_title(pages[name]["settings"])
        figure.tight_layout()
        figure.savefig(os.path.join(paths.BUILD, "bench", name + ".png"), dpi=120)
        pyplot.close(figure)
    print("plots: build/bench/*.png")
