"""More real programs: searchers in Rust, builds out of a mapped source tree, interpreters that load scripts and modules from
it, packers, and what goes through lists of names. As in test_programs, each says on the map what it says on a local copy."""
from harness import proc
from harness.case import test
from test_programs import NEEDS, RUN_LIMIT_S, check, made
from test_tools import bash

# A source tree in C, scripts with modules beside them, some text.
TREE = r"""
set -e
export LC_ALL=C
mkdir -p c/src c/include/deep scripts/lib text
for i in 1 2 3 4 5 6 7 8; do
  printf '#include "deep/all.h"\nint part%d(void) { return %d; }\n' $i $i > c/src/part$i.c
  printf 'int part%d(void);\n' $i >> c/include/deep/all.h
done
printf '#include <stdio.h>\n#include <deep/all.h>\nint main(void) { printf("%%d\\n", part1() + part8()); return 0; }\n' > c/src/main.c
awk 'BEGIN { for (i = 0; i < 6000; i++) printf "#define PAD_%06d %d\n", i, i }' >> c/include/deep/all.h
printf 'CFLAGS = -I$(S)/include\nO = $(patsubst $(S)/src/%%.c,%%.o,$(wildcard $(S)/src/*.c))\nall: prog\nprog: $(O)\n\t@cc -o $@ $^\n%%.o: $(S)/src/%%.c $(S)/include/deep/all.h\n\t@cc $(CFLAGS) -c -o $@ $<\n' > c/Makefile
printf 'cmake_minimum_required(VERSION 3.10)\nproject(x C)\nfile(GLOB S src/*.c)\nadd_executable(prog ${S})\ntarget_include_directories(prog PRIVATE include)\n' > c/CMakeLists.txt
awk 'BEGIN { srand(3); for (i = 0; i < 20000; i++) printf "%d line needle%d %s\n", i, i % 97, rand() }' > text/big.txt
printf 'small\nneedle5\n' > text/small.txt
awk 'BEGIN { printf "["; for (i = 0; i < 9000; i++) printf "%s{\"id\":%d,\"name\":\"n%d\"}", i ? "," : "", i, i; print "]" }' > text/big.json
printf 'require_relative "lib/helper"\nputs Helper.answer, __dir__.end_with?("scripts")\nDir.glob(File.join(__dir__, "..", "text", "*")).sort.each { |f| puts File.basename(f), File.size(f), File.read(f).sum }\n' > scripts/main.rb
printf 'module Helper\n  def self.answer = 42\nend\n' > scripts/lib/helper.rb
printf 'const h = require("./lib/helper"); const fs = require("fs"); const path = require("path");\nconsole.log(h.answer, path.basename(__dirname));\nfor (const n of fs.readdirSync(__dirname + "/../text").sort()) console.log(n, fs.statSync(__dirname + "/../text/" + n).size);\nfs.createReadStream(__dirname + "/../text/big.txt").on("data", d => { t = (global.t || 0) + d.length; global.t = t; }).on("end", () => console.log(global.t));\nconsole.log(fs.realpathSync(__dirname + "/lib/../lib").endsWith("scripts/lib"));\n' > scripts/main.js
printf 'module.exports = { answer: 42 };\n' > scripts/lib/helper.js
printf 'use lib "$ENV{HERE}/scripts/lib"; use Helper; use File::Find; use File::stat; print Helper::answer(), "\\n"; find({ no_chdir => 1, wanted => sub { print "$_ ", (-d $_ ? "dir" : stat($_)->size), "\\n" } }, "$ENV{HERE}/text");\n' > scripts/main.pl
printf 'package Helper; sub answer { 42 } 1;\n' > scripts/lib/Helper.pm
printf 'package.path = os.getenv("HERE").."/scripts/lib/?.lua;"..package.path\nlocal h = require("helper") print(h.answer)\nlocal f = io.open(os.getenv("HERE").."/text/big.txt") f:seek("set", 500000) print(f:read("l"), f:read("l")) f:seek("end", -20) print(f:read("a"))\n' > scripts/main.lua
printf 'return { answer = 42 }\n' > scripts/lib/helper.lua
mkdir -p scripts/pkg; printf 'from . import inner\nprint(inner.answer, __name__)\n' > scripts/pkg/__init__.py; printf 'answer = 42\n' > scripts/pkg/inner.py
printf 'import pkgutil, sys\nimport importlib.resources as r\nprint(r.files(sys.modules["pkg"]).joinpath("inner.py").read_text())\n' > scripts/pkg/__main__.py
python3 -c 'import zipfile; z = zipfile.ZipFile("scripts/app.zip", "w"); z.write("scripts/pkg/inner.py", "mod.py"); z.writestr("__main__.py", "import mod; print(mod.answer, mod.__file__[-14:])"); z.close()'
find c scripts text -type f | sort > list; printf 'text/big.txt\nc/src/main.c\n' > some
"""

PACKED = TREE + r"""
mkdir pack
(cd text && 7z a -bd -mtm=off ../pack/a.7z . > /dev/null)
zstd -q text/big.txt -o pack/big.zst; xz -k -c text/big.txt > pack/big.xz; bzip2 -c text/big.txt > pack/big.bz2; lz4 -q -z text/big.txt pack/big.lz4; gzip -nc text/big.txt > pack/big.gz
(cd text && find . -type f | sort | cpio -o -H newc --quiet --reproducible > ../pack/a.cpio); mksquashfs text pack/a.sqfs -quiet -no-progress -all-time 0 > /dev/null
(cd text && tar cf ../pack/a.tar .)
"""

SEARCHERS = {
    "rg": "rg --no-heading -c 'needle5\\b' data | sort; rg --files data | sort; "
            "rg -l --sort path answer data; rg --mmap -c needle7 data/text/big.txt; "
            "rg -uuu --stats needle9 data/text 2>&1 | grep -e 'files searched' -e 'matches'; "
            "cd data && rg -c needle5 | sort; rg --files -g '*.c' | sort",
    "fd": "fdfind . data | sort; fdfind -e c . data -x wc -c {} | sort; "
            "cd data && fdfind -t f -S +100k | sort; fdfind -t d | sort; fdfind -H tags",
}

BUILDERS = {
    "make": "make -s -f data/c/Makefile S=data/c && ./prog && make -s -f data/c/Makefile S=data/c && "
            "echo same; make -q -f data/c/Makefile S=data/c; echo $?",
    "make_in": "make -n -C data/c S=. | sed s,/.*/data,data, | tail -n 3",
    "gcc": "gcc -MM -Idata/c/include data/c/src/*.c; gcc -Idata/c/include -o p data/c/src/*.c && ./p; "
            "cpp -Idata/c/include data/c/src/main.c | sha256sum; "
            "gcc -x c -fsyntax-only -Idata/c/include - < data/c/src/main.c && echo ok",
    "cmake": "cmake -S data/c -B out -G Ninja > /dev/null && ninja -C out > /dev/null && out/prog && "
            "ninja -C out | tail -n 1",
    "cmake_make": "cmake -S data/c -B out > /dev/null && make -s -C out > /dev/null && out/prog",
}

SCRIPTS = {
    "ruby": 'ruby data/scripts/main.rb; ruby -e \'puts IO.readlines("data/text/big.txt").size; '
            'require "find"; Find.find("data") { |f| puts f }; '
            'puts File.stat("data/text").directory?, Dir.children("data/text").sort; '
            'IO.copy_stream("data/text/big.txt", "o"); puts File.size("o")\' | sort',
    "lua": "HERE=data lua5.4 data/scripts/main.lua",
    "node": 'node data/scripts/main.js; node -e \'const fs = require("fs"); '
            'fs.promises.readFile("data/text/big.txt").then(b => console.log(b.length)); '
            'fs.cpSync("data/text", "o", { recursive: true }); '
            'console.log(fs.readdirSync("o").length, fs.existsSync("data/none")); '
            'for (const e of fs.readdirSync("data", { withFileTypes: true })) console.log(e.name, '
            "e.isDirectory())'",
    "node_promises": 'node -e \'const fs = require("fs"); (async () => { const n = []; '
            'for await (const e of await fs.promises.opendir("data/text")) n.push(e.name); '
            'console.log(n.sort()); const h = await fs.promises.open("data/text/big.txt"); '
            "const b = Buffer.alloc(20); await h.read(b, 0, 20, 300000); console.log(b.toString()); "
            'console.log((await h.stat()).size); await h.close(); await fs.promises.access("data/text"); '
            "})()'",
    "perl": "HERE=data perl data/scripts/main.pl | sort; "
            'perl -MFile::Glob=:bsd_glob -e \'print join "\\n", bsd_glob("data/{c,text}/*")\'; '
            'perl -MCwd=abs_path -e \'print abs_path("data/c/../text") =~ /data.text$/\'; '
            'perl -e \'opendir D, "data"; print join(",", sort readdir D); rewinddir D; '
            "print scalar(@{[readdir D]}); "
            'print -e "data/none" ? 1 : 0, -r "data/some", -M "data/some" > -1\'',
    "python": "cd data/scripts && python3 -B -m pkg; cd ../..; "
            "PYTHONPATH=data/scripts python3 -B -c 'import pkg'; python3 -B data/scripts/app.zip; "
            "PYTHONPATH=data/scripts/app.zip python3 -c 'import mod; print(mod.answer)'; "
            "python3 -m json.tool data/text/big.json | sha256sum; python3 -m tarfile -l data/pack/a.tar; "
            "python3 -m zipfile -t data/scripts/app.zip; python3 -m ast data/scripts/pkg/inner.py",
    "jq": "jq '.[8999]' data/text/big.json; jq -s 'length' data/text/big.json data/text/big.json; "
            "jq -n 'input | length' data/text/big.json; "
            "jq --slurpfile a data/text/big.json -n '$a[0] | length'; "
            "jq --stream -c 'select(.[0][0] == 17)' data/text/big.json",
    "bash": 'source data/some 2>/dev/null; while IFS= read -r l; do [ -f "data/$l" ] && echo "$l"; '
            "done < data/list; for f in data/c/src/*.c; do echo ${f##*/}; done; cd data/c/src; "
            ". ../../some 2>/dev/null; echo $(<../../some); cat ../include/deep/all.h | wc -l; "
            "pushd ../../text > /dev/null; dirs | wc -w; popd > /dev/null; ls ~- > /dev/null; "
            "compgen -f ../../text/ | sort; printf '%s\\n' ../../*/ ; "
            "[[ ../../list -nt ../../none ]] && echo newer; "
            "[[ ../../some -ef ../../c/../some ]] && echo same",
    "dash": "dash -c 'for f in data/*; do echo $f; done; "
            "cd data/c && pwd | sed s,.*/data,, && cat < src/main.c; read x < Makefile; echo $x'",
}

PACKERS = {
    "7z": "7z t data/pack/a.7z | grep -c Everything; 7z l -ba data/pack/a.7z | awk '{print $NF}'; "
            "7z x -bd -oout data/pack/a.7z > /dev/null && find out -type f | sort | xargs sha256sum; "
            "7z t data/pack/big.xz | grep Ok; "
            "7z a -bd b.7z data/text > /dev/null && 7z t b.7z | grep -c Everything",
    "unpack": "zstd -t data/pack/big.zst; zstd -dc data/pack/big.zst | sha256sum; xz -t data/pack/big.xz; "
            "xz -l --robot data/pack/big.xz | grep ^file | cut -f2-5; "
            "xz -dc -T2 data/pack/big.xz | sha256sum; bzip2 -t data/pack/big.bz2; "
            "bzcat data/pack/big.bz2 | sha256sum; lz4 -t data/pack/big.lz4 2>/dev/null; "
            "lz4 -dc data/pack/big.lz4 | sha256sum; gzip -t data/pack/big.gz; "
            "pigz -dc data/pack/big.gz | sha256sum; pigz -t data/pack/big.gz; "
            "zgrep -c needle5 data/pack/big.gz; zcat data/pack/big.gz | tail -n 1; "
            "zdiff data/pack/big.gz data/text/big.txt && echo same; xzgrep -c needle7 data/pack/big.xz; "
            "bzgrep -c needle7 data/pack/big.bz2; zstdgrep -c needle7 data/pack/big.zst",
    "pack": "zstd -q data/text/big.txt -o o.zst && sha256sum o.zst; "
            "xz -k -c data/text/big.txt | sha256sum; bzip2 -kc data/text/big.txt | sha256sum; "
            "pigz -nc data/text/big.txt | gunzip | sha256sum; "
            "zip -qrX o.zip data/text && unzip -l o.zip | awk '{print $1, $NF}' | sort; "
            "zstd -q -T2 data/text/big.txt data/text/big.json --output-dir-flat . && ls *.zst",
    "cpio": "cpio -it --quiet < data/pack/a.cpio; "
            "cpio -i --quiet -d -D . < data/pack/a.cpio && sha256sum big.txt; "
            "find data/text -type f | sort | cpio -o -H newc --quiet | cpio -it --quiet; "
            "find data/text -depth | cpio -pdm --quiet out && find out | sort",
    "tar": "tar c -C data -T data/list | tar t; "
            "tar c -C data --files-from=data/some | tar xO | sha256sum; "
            "tar cf - -I zstd data/text | tar t -I zstd | sort; "
            "tar tvf data/pack/a.tar | awk '{print $3, $NF}'; "
            "tar xf data/pack/a.tar -C . ./big.txt && sha256sum big.txt; "
            "tar --compare -f data/pack/a.tar -C data/text | grep -v -e Mode -e 'Mod time' -e Uid -e "
            "Gid; tar c --exclude='*.json' --exclude-from=data/some -C data text | tar t | sort",
    "squashfs": "unsquashfs -q -n -f -d out data/pack/a.sqfs > /dev/null && find out -type f | sort | "
            "xargs sha256sum; "
            "mksquashfs data/text o.sqfs -quiet -no-progress -no-xattrs > /dev/null && unsquashfs -l "
            "o.sqfs | sort",
}

LINES = {
    "parallel": "find data -type f | sort | parallel -k sha256sum; parallel -a data/some -k wc -c data/{}; "
            "find data -name '*.c' -print0 | sort -z | xargs -0 -P 4 -n 1 wc -l | sort; "
            "cat data/text/big.txt | parallel -k --pipe --block 200k wc -l | awk '{s+=$1} END {print "
            "s}'; parallel -k --pipepart -a data/text/big.txt --block 300k wc -l | awk '{s+=$1} END "
            "{print s}'",
    "rsync": "rsync -r --list-only data/ | awk '{print $2, $NF}' | grep -v -e ' \\.$' | grep '\\.'; "
            "rsync -rc data/ out/ && diff -r data out && rsync -rc --itemize-changes data/ out/; "
            "rsync -a --files-from=data/some data/ sel/ && find sel -type f | sort; "
            "rsync -r --include='*/' --include='*.c' --exclude='*' data/ cc/ && find cc -type f | sort; "
            "rsync -aH --no-perms --no-owner --no-group --link-dest=$PWD/out data/ hard/ && find "
            "hard -type f | wc -l; "
            "rsync -rc --delete --dry-run -v data/text/ out/text/ | grep -c deleting",
    "less": "less -R data/some | cat; LESS= less -f -X data/text/big.txt | sha256sum; "
            "more data/some | cat; less data/none",
    "tree": "tree --noreport data/c; tree -s data/text | tail -n 1; "
            "tree -J data/scripts/lib | jq -c '.[0].contents | map(.name) | sort'",
    "coreutils": "ls -lad data/none; ls -R data | sha256sum; ls -1Sr data/text; "
            "ls -i data/some | awk '{print NF}'; stat -L -c %F data/c; stat -f -c %T data >/dev/null; "
            "echo $?; df data > /dev/null; echo $?; du -b --apparent-size data/text/big.txt; dir data; "
            "vdir data/none; readlink -e data/c/../some | sed 's,.*/data,data,'; "
            "realpath -s data/c/.. | sed 's,.*/data,data,'; test data/list -nt data/none; echo $?; "
            "chroot data true 2>&1 | head -c 6; nice cat data/some; timeout 5 cat data/some; "
            "env cat data/some; nohup cat data/some 2>/dev/null; stdbuf -oL cat data/some; "
            "truncate -r data/text/big.txt o && stat -c %s o; touch -r data/some t; "
            "cp --reflink=auto data/text/big.txt r && cmp r data/text/big.txt; "
            "cp --parents data/c/src/main.c . 2>/dev/null; comm -12 <(sort data/some) <(sort data/list); "
            "tsort data/some 2>&1 | head -n 1; ptx data/some | wc -l; dircolors data/some 2>&1 | wc -l; "
            "factor < /dev/null; sort --files0-from=<(printf 'data/some\\0data/list\\0') | wc -l; "
            "wc --files0-from=<(printf 'data/some\\0data/list\\0'); "
            "du --files0-from=<(printf 'data/some\\0') -b; tee o2 < data/some > /dev/null; "
            "sync data/some; echo $?; cksum -a sha256 data/some; basenc --base32 data/some; "
            "head -c 5 data/some data/list; tail -f --pid=$$ data/some & sleep 0.3; kill $!; "
            "wait 2>/dev/null",
    "find": "find data -newer data/none 2>&1 | tail -c 30; find data -size +200k | sort; "
            "find data -empty | sort; find data -samefile data/some; "
            "find data -type f -readable | wc -l; find data -type f -executable | wc -l; "
            " find data -fstype none; find -L data -name '*.c' | sort; find data -depth -type d | sort; "
            "find data -name '*.txt' -execdir echo {} \\; | sort; "
            "find data -name '*.txt' -execdir sh -c 'wc -c < $1' _ {} \\; | sort; "
            "find data -maxdepth 1 -printf '%f %y %s\\n' -type f 2>/dev/null | grep -v ' d ' | sort; "
            "find data -type f -printf '%P %s %h %H\\n' | sort; find data -regex '.*\\.rb' ; "
            "find data -prune; find data -mindepth 1 -maxdepth 1 -print0 | sort -z | xargs -0 ls -d; "
            "find . -path ./data/text -prune -o -type f -print | sort | head -n 5; "
            "find data -xdev -type f | wc -l; find data -inum 1; find data -quit",
}


def compare(name, script, table):
    def make(folder):
        done = proc.run(["bash", "-c", script], RUN_LIMIT_S, cwd=folder)
        proc.expect(done.returncode == 0, "no data", proc.tail(done.stdout, done.stderr))
    check(made(name, make, __file__), {key: bash(line + "\ntrue") for key, line in table.items()}, prefetch="off")


@test(NEEDS + ("rg", "fdfind",), timeout=60)
def test_program_searchers():
    compare("searchers", TREE, SEARCHERS)


@test(NEEDS + ("cmake", "ninja",), timeout=200, slow=True)
def test_more_builders():
    compare("builders", TREE, BUILDERS)


@test(NEEDS + ("ruby", "lua5.4", "node", "jq",), timeout=200, slow=True)
def test_more_scripts():
    compare("scripts", TREE, SCRIPTS)


@test(NEEDS + ("7z", "zstd", "lz4", "pigz", "cpio", "mksquashfs",), timeout=200, slow=True)
def test_more_packers():
    compare("packers", PACKED, PACKERS)


@test(NEEDS + ("parallel", "rsync", "tree", "less",), timeout=200, slow=True)
def test_more_lines():
    compare("lines", TREE, LINES)
