# spira is header-only: nothing here has to be built to use it. `make help` says what there is.

# ---- what this machine has ----------------------------------------------------------------------
# Each can be given: `make run NVCC=` takes the CPU, `make test ARCH=80` compiles for sm_80.

ifeq ($(origin NVCC),undefined)
NVCC := $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
endif
ifeq ($(origin GPU),undefined)
GPU := $(shell nvidia-smi -L 2>/dev/null | sed -n "/^GPU/s/ *.UUID.*//p" | head -n 1)
endif
# The GPU's compute capability without the dot; the forms with an "a" have the fast instructions.
GPU_ARCH := $(if $(GPU),$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null \
              | head -n 1 | tr -cd 0-9 | sed 's/^90$$/90a/'))
ARCH ?= $(or $(GPU_ARCH),90a)

# cuBLAS comes with the toolkit, or not; what needs it is linked with it, and nothing else is.
CUBLAS := $(if $(NVCC),$(wildcard $(dir $(NVCC))../include/cublas_v2.h \
            $(dir $(NVCC))../targets/*/include/cublas_v2.h))

CLANG        := $(shell command -v clang++ 2>/dev/null)
CLANG_FORMAT := $(shell command -v clang-format 2>/dev/null)

# As many jobs as cores, unless the caller asks for a number.
ifeq (,$(findstring j,$(firstword -$(MAKEFLAGS)))$(filter -j%,$(MAKEFLAGS)))
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# ---- sources and flags --------------------------------------------------------------------------

HEADERS    := spira.cuh $(wildcard spira/*.h spira/*.cuh spira/*/*.h spira/*/*.cuh)
HOST_TESTS := $(wildcard tests/host/*.cpp)
CUDA_TESTS := $(wildcard tests/gpu/*.cu)
GPU_TESTS  := $(filter-out tests/gpu/cublas.cu tests/gpu/calls.cu,$(CUDA_TESTS))
EXAMPLES   := $(wildcard examples/*.cu)
BENCHES    := $(filter-out $(if $(CUBLAS),,bench/cublas.cu),$(wildcard bench/*.cu))
SOURCES    := spira.cuh $(foreach d,spira spira/base spira/index spira/layout spira/conv spira/conv/hopper spira/gemm spira/net tests/host tests/gpu tests/support tests/build examples bench,$(foreach e,h cuh cpp cu,$(wildcard $d/*.$e)))

# The flags of $1 that the compiler accepts, one by one, library and all.
accepted = $(foreach f,$1,$(shell mkdir -p build && echo 'int main() {}' | \
             $(CXX) -x c++ $f - -o build/probe 2>/dev/null && echo '$f'))
OPENMP   := $(call accepted,-fopenmp)

DEPENDS   = -MMD -MP -MF $@.d -MT $@
STRICT   := -Wall -Wextra -Werror
HOSTFLAGS = -std=c++17 $(STRICT) $(OPENMP)
FASTFLAGS = -std=c++17 -O3 $(call accepted,-march=native) $(OPENMP)
NVCCFLAGS = -std=c++17 -O3 -lineinfo -Xcompiler -fopenmp -Werror all-warnings \
            -Xcompiler -Wall,-Wextra,-Werror
gencode   = -gencode=arch=compute_$1,code=sm_$1
# Where nothing runs and no architecture is asked for, what is built stops short of machine code,
# which takes as long again; `make check` compiles all kernels down to it.
SHORT    := $(if $(GPU)$(filter-out file,$(origin ARCH)),,yes)
# What is not run need not be quick, where nvcc can leave that out.
HASTY    := $(if $(and $(SHORT),$(NVCC)),$(shell $(NVCC) --help 2>/dev/null | \
              grep -q -e --Ofast-compile && echo --Ofast-compile=max))
build_for = -gencode=arch=compute_$1,code=$(if $(SHORT),compute,sm)_$1 $(HASTY)
BUILT    := $(if $(SHORT),compute,sm)_$(ARCH)

# One line for each step; what the compiler says is shown in one piece, and only if it fails.
step = @mkdir -p $(@D); echo '$1'; \
       $2 >$@.log 2>&1 || { echo 'FAILED: $1'; cat $@.log; rm -f $@; exit 1; }

# ---- what people type ---------------------------------------------------------------------------

.PHONY: help all run test bench check sanitize format clean
.DEFAULT_GOAL := help

help:
	@echo 'make run       voxelise a scan and run a network on it: on the GPU if there is one'
	@echo '               SCAN=file (.bin .pcd.bin .xyz32 .vox32 .npy), VOXEL=metres, NET=name, ARGS=...'
	@echo 'make test      host tests; GPU code is compiled, and tested if there is a GPU'
	@echo 'make bench     build the benchmarks'
	@echo 'make check     headers alone, layers, linkage, architectures, spills, format'
	@echo 'make sanitize  host tests under the address and undefined-behaviour sanitizers'
	@echo 'make all       build all of it, run nothing'
	@echo 'make format    clang-format'
	@echo 'make clean     remove build/'

ifneq (,$(and $(NVCC),$(GPU)))
RUN     := build/example_scan
RUN_WHY := on the GPU: $(GPU), with $(NVCC) for sm_$(ARCH)
else
RUN     := build/host_scan
RUN_WHY := on the CPU, with $(CXX): there is no $(if $(NVCC),GPU,nvcc)
endif

RUN_ARGS = $(if $(SCAN),--scan '$(SCAN)') $(if $(VOXEL),--voxel '$(VOXEL)') \
           $(if $(NET),--net '$(NET)') $(ARGS)

run: $(RUN)
	@echo 'scan: $(RUN_WHY)'
	@$(RUN) $(RUN_ARGS)

HOST_BUILDS := build/test_host $(if $(wildcard examples/scan.cu),build/host_scan)
GPU_BUILDS  := $(EXAMPLES:examples/%.cu=build/example_%) $(BENCHES:bench/%.cu=build/bench_%)
TESTS_BUILT := $(if $(NVCC),build/test_gpu build/test_calls $(if $(CUBLAS),build/test_cublas))

all: $(HOST_BUILDS) $(TESTS_BUILT) $(if $(NVCC),$(GPU_BUILDS))

# Without nvcc, or cuBLAS, the GPU tests that could not be compiled are counted by their source.
UNBUILT = $(shell cat $(if $(NVCC),tests/gpu/cublas.cu,$(CUDA_TESTS)) | grep -cE '^(DEVICE_)?TEST.[a-z]')

test: all
	@$(if $(NVCC),$(if $(GPU),,echo 'no GPU: the GPU code was compiled and is not run'), \
	      echo 'no nvcc: the GPU code was neither compiled nor run')
	@$(if $(CUBLAS),,TALLY_SKIPPED=$(UNBUILT)) tests/tally.sh build/test_host \
	      $(foreach t,$(TESTS_BUILT),'$(if $(GPU),SPIRA_NEED_GPU=1) $t') \
	      'tests/run_layers.sh --self-test' 'tests/run_spills.sh --self-test' \
	      'tests/run_checkpoint.sh build/host_scan'

ifeq (,$(NVCC))
bench:
	@echo 'the benchmarks need nvcc'; exit 1
else
bench: $(filter build/bench_%,$(GPU_BUILDS))
	@echo 'One JSON object a line comes from: $(or $^,(there is none yet))'
	@echo 'Give each the scans to measure: build/bench_map data/*.vox32'
endif

format:
	$(CLANG_FORMAT) -i $(SOURCES)

clean:
	rm -rf build

# ---- tests, examples, benchmarks ----------------------------------------------------------------

# A test file that is gone is no longer linked: its folder is newer then.
build/test_host build/test_gpu build/test_sanitize: tests/host tests/gpu

build/test_cublas build/bench_cublas: LIBS := -lcublas \
    -Xlinker -rpath=$(abspath $(dir $(firstword $(CUBLAS)))../lib64)

# Kernels as the host runs them (emulate.h) say how their loops are unrolled; and g++ takes their
# dynamic shared memory, a thread's own, for a variable that some other file may have to begin.
EMULATED := $(patsubst tests/host/%.cpp,%.o,$(shell grep -l 'emulate.*h"' $(HOST_TESTS)))
$(EMULATED:%=build/host/%) $(EMULATED:%=build/sanitize/%): \
    STRICT += -Wno-unknown-pragmas $(call accepted,-fno-extern-tls-init)

build/host/%.o: tests/host/%.cpp
	$(call step,c++ $<,$(CXX) -O2 $(HOSTFLAGS) $(DEPENDS) -c $< -o $@)

build/test_host: $(HOST_TESTS:tests/host/%.cpp=build/host/%.o)
	$(call step,link $@,$(CXX) $(OPENMP) -pthread $(filter %.o,$^) -o $@)

build/gpu_$(ARCH)/%.o: tests/gpu/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(DEPENDS) -c $< -o $@)

build/test_gpu: $(GPU_TESTS:tests/gpu/%.cu=build/gpu_$(ARCH)/%.o)
build/test_cublas: build/gpu_$(ARCH)/cublas.o

# Every function of the CUDA runtime that gpu_calls.cu calls is counted on its way there: the linker
# sends the calls through stubs, whose list comes from the object.
CALLS := build/gpu_$(ARCH)/calls

$(CALLS).list: $(CALLS).o
	$(call step,list the calls of $<,{ nm -u $< | awk '$$NF ~ /^_*cu/ { print "CALL(" $$NF ")" }' >$@ && \
	      [ -s $@ ]; })

$(CALLS)_wrap.o: tests/support/calls_wrap.cpp $(CALLS).list
	$(call step,c++ $<,$(CXX) -O2 $(HOSTFLAGS) $(DEPENDS) '-DCALLS_LIST="$(abspath $(CALLS).list)"' \
	      -c $< -o $@)

build/test_calls: $(CALLS).o $(CALLS)_wrap.o
build/test_calls: LIBS = $$(sed 's/CALL(\(.*\))/-Xlinker --wrap=\1/' $(CALLS).list)

build/test_gpu build/test_cublas build/test_calls:
	$(call step,link $@,$(NVCC) -Xcompiler -fopenmp $(call build_for,$(ARCH)) $(filter %.o,$^) $(LIBS) -o $@)

# What was built for another architecture is built again.
$(TESTS_BUILT) $(GPU_BUILDS): build/arch_$(ARCH)

build/arch_$(ARCH):
	@mkdir -p build; rm -f build/arch_*; touch $@

build/example_%: examples/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(DEPENDS) $< -o $@)

build/bench_%: bench/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(DEPENDS) $< $(LIBS) -o $@)

# The same source is plain C++ where there is no CUDA.
build/host_%: examples/%.cu
	$(call step,c++ $<,$(CXX) $(FASTFLAGS) $(DEPENDS) -x c++ $< -o $@)

SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover

build/sanitize/%.o: tests/host/%.cpp
	$(call step,c++ $< (sanitizers),$(CXX) $(SANITIZE) $(HOSTFLAGS) $(DEPENDS) -c $< -o $@)

build/test_sanitize: $(HOST_TESTS:tests/host/%.cpp=build/sanitize/%.o)
	$(call step,link $@,$(CXX) $(SANITIZE) $(OPENMP) -pthread $(filter %.o,$^) -o $@)

sanitize: build/test_sanitize
	@SPIRA_QUICK=1 SPIRA_EXACT=1 build/test_sanitize

# ---- checks: one .ok file for each, so that only what changed is checked again -------------------

CHECK := build/check
ARCHS := 90a 75 80 100
HOST_HEADERS := $(filter %.h spira.cuh,$(HEADERS))
NVCC_HEADERS := $(filter-out $(if $(CUBLAS),,spira/cublas.cuh),$(HEADERS))

HOST_CHECKS  := $(HOST_HEADERS:%=$(CHECK)/g++/%.ok) $(CHECK)/layers.ok
CLANG_CHECKS := $(HOST_HEADERS:%=$(CHECK)/clang++/%.ok)
NVCC_CHECKS  := $(ARCHS:%=$(CHECK)/arch/%.ok) $(CHECK)/spills.ok $(CHECK)/link.ok \
                $(CHECK)/linkage.ok $(if $(wildcard README.md),$(CHECK)/readme.ok) \
                $(NVCC_HEADERS:%=$(CHECK)/nvcc/%.ok)
FORMAT_CHECK := $(CHECK)/format.ok

CHECKS  := $(if $(NVCC),$(NVCC_CHECKS)) $(HOST_CHECKS) $(if $(CLANG),$(CLANG_CHECKS)) \
           $(if $(CLANG_FORMAT),$(FORMAT_CHECK))
SKIPPED := $(filter-out $(CHECKS),$(NVCC_CHECKS) $(CLANG_CHECKS) $(FORMAT_CHECK))
LACKING := $(if $(NVCC),,nvcc) $(if $(CLANG),,clang++) $(if $(CLANG_FORMAT),,clang-format)

# A failed check says so and leaves no .ok; the others go on, and `check` counts.
attempt = @mkdir -p $(@D); rm -f $@; \
          if { $2; } >$(@:.ok=.log) 2>&1; then echo 'ok      $1'; touch $@; \
          else echo 'FAILED  $1'; cat $(@:.ok=.log); fi

check: $(CHECKS)
	@$(if $(SKIPPED),echo 'skipped $(words $(SKIPPED)) checks for want of: $(LACKING)')
	@passed=$$(ls $(CHECKS) 2>/dev/null | wc -l); failed=$$(($(words $(CHECKS)) - passed)); \
	      echo "$$passed passed, $$failed failed, $(words $(SKIPPED)) skipped"; [ $$failed = 0 ]

# A header is compiled through a file that includes it and nothing else.
alone = echo '\#include "$(abspath $<)"' >$(@:.ok=.$1)

$(CHECK)/g++/%.ok: %
	$(call attempt,$* alone under $(CXX),$(call alone,cpp) && \
	      $(CXX) $(HOSTFLAGS) $(DEPENDS) -c $(@:.ok=.cpp) -o $(@:.ok=.o))

$(CHECK)/clang++/%.ok: %
	$(call attempt,$* alone under clang++,$(call alone,cpp) && \
	      $(CLANG) -std=c++17 $(STRICT) $(DEPENDS) -c $(@:.ok=.cpp) -o $(@:.ok=.o))

# Whether it compiles: machine code is for all_kernels.cu, and good code for the one whose spills are
# looked at.
assembled = $(call gencode,$1) $(if $(filter 90a,$1),,$(HASTY))
UNASSEMBLED = -gencode=arch=compute_90a,code=compute_90a $(HASTY)

$(CHECK)/nvcc/%.ok: %
	$(call attempt,$* alone under nvcc,$(call alone,cu) && \
	      $(NVCC) $(NVCCFLAGS) $(UNASSEMBLED) $(DEPENDS) -c $(@:.ok=.cu) -o $(@:.ok=.o))

$(CHECK)/arch/%.ok: tests/build/all_kernels.cu
	$(call attempt,all kernels for sm_$*,$(NVCC) $(NVCCFLAGS) $(call assembled,$*) -Xptxas -v \
	      $(DEPENDS) -c $< -o $(@:.ok=.o))

$(CHECK)/spills.ok: $(CHECK)/arch/90a.ok tests/run_spills.sh
	$(call attempt,no spills on sm_90a,tests/run_spills.sh $(CHECK)/arch/90a.log)

$(CHECK)/link_a.ok: ARCH := 80
$(CHECK)/link_b.ok: ARCH := 90a
$(CHECK)/link_%.ok: tests/build/link_%.cu
	$(call attempt,link_$*.cu for sm_$(ARCH),$(NVCC) $(NVCCFLAGS) $(call gencode,$(ARCH)) $(HASTY) \
	      $(DEPENDS) -c $< -o $(@:.ok=.o))

LINKED := $(CHECK)/link_a.ok $(CHECK)/link_b.ok

$(CHECK)/link.ok: $(LINKED)
	$(call attempt,sm_80 and sm_90a in one binary,$(NVCC) -Xcompiler -fopenmp $(LINKED:.ok=.o) \
	      -o $(@:.ok=))

# No function, kernel or variable of ours is visible to the linker.
$(CHECK)/linkage.ok: $(LINKED)
	$(call attempt,internal linkage,nm $(LINKED:.ok=.o) >$@.nm && \
	      ! grep -E ' [A-TV-Zui] _Z[A-Z]*5spira' $@.nm)

# The blocks of the README that are marked as CUDA, as one file.
$(CHECK)/readme.ok: README.md $(HEADERS)
	$(call attempt,the example of the README,awk '/^```/ { on = /cuda/; next } on' $< \
	      >$(@:.ok=.cu) && grep -q spira $(@:.ok=.cu) && \
	      $(NVCC) $(NVCCFLAGS) -I. $(UNASSEMBLED) -c $(@:.ok=.cu) -o $(@:.ok=.o))

$(CHECK)/layers.ok: tests/run_layers.sh tests/layers.txt spira $(HEADERS)
	$(call attempt,layers,tests/run_layers.sh tests/layers.txt spira)

$(CHECK)/format.ok: .clang-format $(SOURCES)
	$(call attempt,format,$(CLANG_FORMAT) --dry-run -Werror $(SOURCES))

-include $(wildcard build/*.d build/*/*.d build/*/*/*.d build/*/*/*/*.d)
