# headrace: `make` builds build/libheadrace.so and build/headrace; `make help` lists the targets.
#   SAN=address|undefined|thread   a sanitizer build in build-SAN/ (programs and unit tests; the .so is left out)
#   CC=clang                       another compiler
#   V=1                            show the commands
#   CFLAGS=-Wno-error              a compiler whose new warnings are in the way

SHELL := /bin/sh
CC ?= cc
SAN ?=
V ?=
PREFIX ?= /usr/local
DESTDIR ?=
Q := $(if $(V),,@)
comma := ,
VERSION := 0.1.0

B := build$(if $(SAN),-$(SAN))
O := $(B)/obj

# Messages have bounded room and may be cut; which of them gcc warns of differs by its version (clang has no such warning).
CUT_TEXT := $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,-Wno-format-truncation)
WARN := -Wall -Wextra -Wshadow -Werror -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef \
	-Wwrite-strings -Wvla $(CUT_TEXT)
BASE_FLAGS := -std=gnu11 -O2 -g $(WARN) -fno-common -fvisibility=hidden -D_GNU_SOURCE -I. \
	-DHR_VERSION='"$(VERSION)"' -MMD -MP $(CFLAGS)
SAN_FLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)

# The preloaded object lives in other people's processes: no stack protector or fortify (they call out of libc's
# small set), initial-exec TLS, everything resolved at load.
SO_FLAGS := -include interpose/nullable.h -fPIC -fno-stack-protector -U_FORTIFY_SOURCE -ftls-model=initial-exec -fno-plt
FETCH_PKGS := libcurl openssl expat jansson zlib libunwind-ptrace libunwind-generic
FETCH_CFLAGS := $(shell pkg-config --cflags $(FETCH_PKGS) 2>/dev/null)
FETCH_LIBS := $(shell pkg-config --libs $(FETCH_PKGS) 2>/dev/null) -lpthread -lm

ROOMS := base net auth store list cache plan serve cmd
CONFIG_SRC := $(wildcard config/*.c)
# The part of config/ that never allocates and so may live in the preloaded object.
CONFIG_SO_SRC := config/maps.c config/key.c config/links.c
SO_SRC := $(wildcard interpose/*.c) $(CONFIG_SO_SRC)
INDEX_SRC := interpose/index.c interpose/index_check.c
# What a program file is: the same rules in the preloaded object and in the command.
OBSTACLE_SRC := interpose/obstacle.c interpose/elf.c

so_obj = $(patsubst %.c,$(O)/so/%.o,$(1))
obj = $(patsubst %.c,$(O)/%.o,$(1))

CONFIG_LIB := $(B)/lib/config.a
room_lib = $(B)/lib/$(1).a
ROOM_LIBS := $(foreach r,$(ROOMS),$(call room_lib,$(r)))

.PHONY: all so command libraries deps demo test test-all bench dist install uninstall clean format lint check unit help fuzz
all: so command
so: $(B)/libheadrace.so
command: libraries $(B)/headrace

help:
	@echo 'all                build/libheadrace.so and build/headrace (so, command: one of them)'
	@echo 'install uninstall  PREFIX=/usr/local DESTDIR='
	@echo 'dist               a relocatable tarball in build/dist'
	@echo 'deps               what building and testing needs, by apt'
	@echo 'demo               an epoch through a real S3 server: local, cold, warm'
	@echo 'test test-all      builds and tests everything; with the slow tests'
	@echo 'bench              docs/benchmarks.md, on this machine'
	@echo 'unit probes fuzz   builds those tests'
	@echo 'format lint        clang-format on all files; every static check'
	@echo 'man                manual page and completions'
	@echo 'clean              removes what was built; not fixtures and virtual environments'
	@sed -n '2,5s/^# *//p' Makefile

libraries:
	@if ! command -v pkg-config >/dev/null; then echo 'make: no pkg-config: sh scripts/deps --build' >&2; exit 1; fi
	@if ! pkg-config --exists --print-errors $(FETCH_PKGS); then \
		echo 'make: libraries are missing: sh scripts/deps --build' >&2; exit 1; fi

$(O)/so/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC(so)  $<")
	$(Q)$(CC) $(BASE_FLAGS) $(SO_FLAGS) -c -o $@ $<

# What the unit tests link of it may be given NULL as the preloaded object may.
$(O)/interpose/%.o: BASE_FLAGS += -include interpose/nullable.h
$(O)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC      $<")
	$(Q)$(CC) $(BASE_FLAGS) $(SAN_FLAGS) $(FETCH_CFLAGS) -c -o $@ $<

# Exports are exactly the names of the table.
$(B)/exports.map: interpose/symbols.def scripts/exports
	@mkdir -p $(@D)
	$(Q)sh scripts/exports interpose/symbols.def > $@.tmp && mv $@.tmp $@

$(B)/libheadrace.so: $(call so_obj,$(SO_SRC)) $(B)/exports.map
	$(if $(V),,@echo "  LD      $@")
	$(Q)$(CC) -shared -Wl,-z,defs,-z,now,-z,relro,-soname,libheadrace.so -Wl,--version-script=$(B)/exports.map \
		-o $@ $(call so_obj,$(SO_SRC))

$(CONFIG_LIB): $(call obj,$(CONFIG_SRC))
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $^

define room_rule
$(call room_lib,$(1)): $(call obj,$(wildcard fetch/$(1)/*.c)) $(if $(filter list,$(1)),$(call obj,$(INDEX_SRC))) \
		$(if $(filter cmd,$(1)),$(call obj,$(OBSTACLE_SRC)))
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_rule,$(r))))

# cmd's main.o comes out of its archive by the linker's need of `main`.
$(B)/headrace: $(ROOM_LIBS) $(CONFIG_LIB)
	$(if $(V),,@echo "  LD      $@")
	$(Q)$(CC) $(SAN_FLAGS) -rdynamic -o $@ -Wl,--start-group $(ROOM_LIBS) $(CONFIG_LIB) -Wl,--end-group $(FETCH_LIBS)

# The same with its libraries beside it (scripts/dist). The old tag, because it goes before LD_LIBRARY_PATH and holds for
# what the libraries need as well.
$(B)/headrace-dist: $(ROOM_LIBS) $(CONFIG_LIB)
	$(if $(V),,@echo "  LD      $@")
	$(Q)$(CC) $(SAN_FLAGS) -rdynamic -o $@ -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/lib' \
		-Wl,--start-group $(ROOM_LIBS) $(CONFIG_LIB) -Wl,--end-group $(FETCH_LIBS)
dist: so $(B)/headrace-dist
	$(Q)sh scripts/dist $(B)/headrace-dist $(B)/libheadrace.so $(VERSION) $(B)/dist

# Unit tests: tests/unit/ROOM/test_X.c -> build/tests/unit/ROOM/test_X, linked with ROOM and the rooms before it.
UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
# The thread sanitizer's runtime maps its memory by the program's mmap before anything of ours is ready: that hook, and
# the tests of it, stay out; so does the test of signals, which it keeps until a call that it has a hook on, and one
# that has a single thread and takes minutes under it.
NO_THREAD := $(if $(filter thread,$(SAN)),interpose/wrap_map.c tests/unit/list/test_lanes.c \
	$(patsubst %,tests/unit/interpose/test_%.c,face_map face_hints doze))
UNIT_BIN := $(patsubst tests/%.c,$(B)/tests/%,$(filter-out $(NO_THREAD),$(UNIT_SRC)))
rooms_upto = $(shell echo $(ROOMS) | awk -v r=$(1) '{for(i=1;i<=NF;i++){print $$i; if($$i==r) exit}}')

# Those whose every allocation can be refused, by tests/unit/refused.h.
REFUSED := $(patsubst %,$(B)/tests/unit/%,plan/test_memory serve/test_socket)
$(REFUSED): WRAP := $(patsubst %,-Wl$(comma)--wrap=%,malloc calloc realloc reallocarray strdup strndup hr_block_take)

define unit_rule
$(B)/tests/unit/$(1)/%: tests/unit/$(1)/%.c $(foreach r,$(call rooms_upto,$(1)),$(call room_lib,$(r))) $(CONFIG_LIB)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo "  UNIT    $$<")
	$$(Q)$$(CC) $$(BASE_FLAGS) $$(SAN_FLAGS) $$(FETCH_CFLAGS) $$(WRAP) -MF $$@.d -o $$@ $$< -Wl,--start-group \
		$(foreach r,$(call rooms_upto,$(1)),$(call room_lib,$(r))) $(CONFIG_LIB) -Wl,--end-group $$(FETCH_LIBS) -lcmocka
endef
$(foreach r,$(ROOMS),$(eval $(call unit_rule,$(r))))

$(B)/tests/unit/config/%: tests/unit/config/%.c $(CONFIG_LIB)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  UNIT    $<")
	$(Q)$(CC) $(BASE_FLAGS) $(SAN_FLAGS) -MF $@.d -o $@ $< $(CONFIG_LIB) -lcmocka

# interpose/ as a plain object set: its pure parts (path, index, view) are linked into ordinary tests.
UNIT_SO_SRC := $(filter-out $(NO_THREAD),$(SO_SRC))
# Else make removes them after each build.
.SECONDARY: $(call obj,$(UNIT_SO_SRC))
$(B)/tests/unit/interpose/%: tests/unit/interpose/%.c $(call obj,$(UNIT_SO_SRC))
	@mkdir -p $(@D)
	$(if $(V),,@echo "  UNIT    $<")
	$(Q)$(CC) $(BASE_FLAGS) $(SAN_FLAGS) -MF $@.d -o $@ $< $(call obj,$(UNIT_SO_SRC)) -lcmocka

unit: $(UNIT_BIN)

# Preload programs: one small program a behaviour.
PROBE_SRC := $(wildcard tests/preload/*.c)
PROBE_BIN := $(patsubst tests/%.c,$(B)/tests/%,$(PROBE_SRC))
$(B)/tests/preload/%: tests/preload/%.c Makefile
	@mkdir -p $(@D)
	$(if $(V),,@echo "  PROBE   $<")
	$(Q)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -D_GNU_SOURCE -I. -o $@ $< -lpthread -ldl
probes: $(PROBE_BIN)
.PHONY: probes

# Fuzzers need clang: tests/fuzz/fuzz_X.c with `int LLVMFuzzerTestOneInput(...)`. What they run is compiled once, by this
# Makefile with other flags, and looked at again by each `make fuzz`.
FUZZ_BIN := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_B := $(B)/fuzz
FUZZ_LIBS := $(patsubst %,$(FUZZ_B)/lib/%.a,config base net auth store list cache plan serve) \
	$(patsubst %,$(FUZZ_B)/obj/interpose/%.o,path tiny)
FUZZ_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all
fuzz-objects:
	$(Q)$(MAKE) --no-print-directory $(if $(V),,-s) CC=clang SAN= B=$(FUZZ_B) CFLAGS='$(CFLAGS) -fsanitize=fuzzer-no-link $(FUZZ_FLAGS)' $(FUZZ_LIBS)
.PHONY: fuzz-objects
$(FUZZ_LIBS): fuzz-objects ;
$(B)/tests/fuzz/%: tests/fuzz/%.c $(FUZZ_LIBS)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  FUZZ    $<")
	$(Q)clang $(filter-out -MMD -MP,$(BASE_FLAGS)) $(FETCH_CFLAGS) -fsanitize=fuzzer $(FUZZ_FLAGS) -o $@ $< \
		-Wl,--start-group $(FUZZ_LIBS) -Wl,--end-group $(FETCH_LIBS)
fuzz: $(FUZZ_BIN)

deps:
	sh scripts/deps
demo:
	sh scripts/demo
test:
	sh scripts/test
test-all:
	sh scripts/test --all
bench: all
	sh scripts/bench
check: lint
lint:
	sh scripts/checks
format:
	$$(command -v clang-format-14 || echo clang-format) -i $$(git ls-files '*.c' '*.h')

# Manual page and completions, out of the command's own tables: needs one that runs here.
$(B)/man/headrace.1: $(B)/headrace scripts/man
	$(Q)sh scripts/man $(B)/headrace $(B)/man
man: $(B)/man/headrace.1
.PHONY: man

SHARE := $(DESTDIR)$(PREFIX)/share
COMPLETIONS := $(SHARE)/bash-completion/completions/headrace $(SHARE)/zsh/site-functions/_headrace
install: all man
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/headrace
	install -D -m 0644 $(B)/man/headrace.1 $(SHARE)/man/man1/headrace.1
	install -D -m 0644 $(B)/man/headrace.bash $(word 1,$(COMPLETIONS))
	install -D -m 0644 $(B)/man/_headrace $(word 2,$(COMPLETIONS))
	install -m 0755 $(B)/headrace $(DESTDIR)$(PREFIX)/lib/headrace/headrace
	install -m 0755 $(B)/libheadrace.so $(DESTDIR)$(PREFIX)/lib/headrace/libheadrace.so
	install -m 0755 scripts/headrace-entrypoint $(DESTDIR)$(PREFIX)/lib/headrace/headrace-entrypoint
	ln -sf ../lib/headrace/headrace $(DESTDIR)$(PREFIX)/bin/headrace
	ln -sf ../lib/headrace/headrace-entrypoint $(DESTDIR)$(PREFIX)/bin/headrace-entrypoint
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/headrace $(DESTDIR)$(PREFIX)/bin/headrace-entrypoint
	rm -f $(SHARE)/man/man1/headrace.1 $(COMPLETIONS)
	rm -f $(patsubst %,$(DESTDIR)$(PREFIX)/lib/headrace/%,headrace headrace-entrypoint libheadrace.so)
	if [ -d $(DESTDIR)$(PREFIX)/lib/headrace ]; then rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/lib/headrace; fi
clean:
	rm -rf build/obj build/lib build/fuzz build/tests build/libheadrace.so build/headrace build/headrace-dist build/dist build/man build/exports.map \
		build/cross-* build-address build-undefined build-thread

-include $(shell find $(B) -name '*.d' 2>/dev/null)
