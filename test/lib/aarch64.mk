# SPDX-License-Identifier: BSD-3-Clause
#
# The core and some of its tests for another processor, without Open MPI and so without configure.
# Called by test/lib/aarch64.sh with
#   out        directory of all results
#   programs   adaptib_unit_* and adaptib_conformance_* of test/sources.am
#   core_sources, sim_sources, and for each program <program>_sources

top := $(dir $(abspath $(lastword $(MAKEFILE_LIST))))../..
core := $(top)/opal/mca/common/adaptib
googletest := /usr/src/googletest/googletest

CXX := aarch64-linux-gnu-g++
AR := aarch64-linux-gnu-ar
CXXFLAGS := -std=c++20 -O2 -pthread -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
# test/Makefile.am gives the reasons.
test_flags := -Wno-shadow -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-sign-conversion \
    -DADAPTIB_TEST_SIM=\"$(top)/simulator/torture\" -DADAPTIB_TEST_STUDY=\"$(top)/simulator/studies\"

objects = $(patsubst %.cc,$(out)/$(1)/%.o,$(filter %.cc,$(2)))

all: $(programs:%=$(out)/%)

$(out)/core/%.o: $(core)/%.cc
	@mkdir -p $(@D)
	@echo "  CXX      $*"
	@$(CXX) $(CXXFLAGS) -MMD -I$(core) -I$(out) -c $< -o $@

$(out)/simulator/%.o: $(top)/simulator/%.cc
	@mkdir -p $(@D)
	@echo "  CXX      simulator/$*"
	@$(CXX) $(CXXFLAGS) -MMD -I$(core) -I$(out) -I$(top) -c $< -o $@

$(out)/test/%.o: $(top)/test/%.cc
	@mkdir -p $(@D)
	@echo "  CXX      test/$*"
	@$(CXX) $(CXXFLAGS) $(test_flags) -MMD -I$(core) -I$(out) -I$(top)/test -I$(top) \
	    -isystem $(googletest)/include -c $< -o $@

$(out)/gtest/%.o: $(googletest)/src/%.cc
	@mkdir -p $(@D)
	@echo "  CXX      googletest/$*"
	@$(CXX) -std=c++17 -O1 -pthread -I$(googletest)/include -I$(googletest) -c $< -o $@

$(out)/libcore.a: $(call objects,core,$(core_sources)) $(call objects,simulator,$(sim_sources))
	@rm -f $@
	@$(AR) rcs $@ $^

# Static, so that a run needs no installed libraries of that processor.
define program
$(out)/$(1): $(call objects,test,$($(1)_sources)) $(out)/libcore.a $(out)/gtest/gtest-all.o $(out)/gtest/gtest_main.o
	@echo "  CXXLD    $(1)"
	@$(CXX) -static -pthread -o $$@ $$(filter %.o,$$^) $(out)/libcore.a
endef
$(foreach each,$(programs),$(eval $(call program,$(each))))

-include $(shell find $(out) -name '*.d' 2>/dev/null)
