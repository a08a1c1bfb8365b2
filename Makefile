# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# spira is header-only: its users build nothing here. `make help` lists the targets.

# ---- what this machine has ----------------------------------------------------------------------
# Each variable can be given: `make run NVCC=` uses the CPU, `make test ARCH=80` compiles for sm_80.

ifeq ($(origin NVCC),undefined)
NVCC := $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
endif
ifeq ($(origin GPU),undefined)
GPU := $(shell nvidia-smi -L 2>/dev/null | sed -n "/^GPU/s/ *.UUID.*//p" | head -n 1)
endif

# Which code a GPU needs: that of its compute capability without the dot, except for those named here.
# Plain sm_90, which nvcc -arch=native means on Hopper, lacks the instructions of Hopper's kernels.
arch_for_90 := 90a
arch_for     = $(or $(arch_for_$1),$1)
GPU_ARCHS := $(foreach c,$(if $(GPU),$(shell nvidia-smi --query-gpu=compute_cap \
               --format=csv,noheader 2>/dev/null | tr -d . | sort -u)),$(call arch_for,$c))
ARCH      ?= $(or $(firstword $(GPU_ARCHS)),90a)

# cuBLAS comes with most toolkits. Only what needs it is linked with it.
CUBLAS := $(if $(NVCC),$(wildcard $(dir $(NVCC))../include/cublas_v2.h \
            $(dir $(NVCC))../targets/*/include/cublas_v2.h))

# A Python with NumPy: examples/checkpoint.py and tests/judge.py need it.
PYTHON = $(firstword $(foreach p,python3 /usr/bin/python3,$(shell $p -c 'import numpy' 2>/dev/null && echo $p)))

CLANG        := $(shell command -v clang++ 2>/dev/null)
CLANG_FORMAT := $(shell command -v clang-format 2>/dev/null)

# Compilers for other machines, and what runs code for one of them.
MINGW := $(shell command -v x86_64-w64-mingw32-g++ 2>/dev/null)
ARM   := $(shell command -v aarch64-linux-gnu-g++ 2>/dev/null)
QEMU  := $(shell command -v qemu-aarch64 2>/dev/null)

# As many jobs as cores, unless the caller asks for a number.
ifeq (,$(findstring j,$(firstword -$(MAKEFLAGS)))$(filter -j%,$(MAKEFLAGS)))
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

# ---- sources and flags --------------------------------------------------------------------------

HEADERS    := spira.cuh $(shell find spira -name '*.h' -o -name '*.cuh' | sort)
HOST_TESTS := $(wildcard tests/host/*.cpp)
CUDA_TESTS := $(wildcard tests/gpu/*.cu)
GPU_TESTS  := $(filter-out tests/gpu/cublas.cu tests/gpu/calls.cu,$(CUDA_TESTS))
EXAMPLES   := $(wildcard examples/*.cu)
BENCHES    := $(filter-out $(if $(CUBLAS),,bench/cublas.cu),$(wildcard bench/*.cu))
SOURCES    := spira.cuh $(shell find spira tests examples bench \
                -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' | sort)

# The flags of $1 that the compiler accepts, one by one, library and all.
accepted = $(foreach f,$1,$(shell mkdir -p build && echo 'int main() {}' | \
             $(CXX) -x c++ $f - -o build/probe 2>/dev/null && echo '$f'))
OPENMP   := $(call accepted,-fopenmp)

CHECK := build/check

DEPENDS   = -MMD -MP -MF $@.d -MT $@
STRICT   := -Wall -Wextra -Werror
STANDARD := c++17
HOSTFLAGS = -std=$(STANDARD) $(STRICT) $(OPENMP)
FASTFLAGS = -std=c++17 -O1 -ftree-vectorize $(call accepted,-march=native) $(OPENMP)
# -O is about the host's half alone: nvcc optimises kernels in any case. Half of the time of a test
# would be the host compiler's with -O3. The GPU tests are compiled with -O1: they compare with host
# loops. Nothing else that is not run needs any.
HOST_LEVEL = $(if $(PTX_ONLY),-O0,-O3)
LINES      = $(if $(PTX_ONLY),,-lineinfo)
NVCCFLAGS  = -std=c++17 $(HOST_LEVEL) $(LINES) -Xcompiler -fopenmp \
             -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror
# As a user compiles: the cost of an include is measured with these.
UNITFLAGS = -std=c++17 -O3 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror
# Code for plain sm_90 on purpose: spira/device.cuh need not remark on it.
plain     = $(if $(filter 90,$1),-DSPIRA_PLAIN_SM90)
gencode   = -gencode=arch=compute_$1,code=sm_$1
ptx       = -gencode=arch=compute_$1,code=compute_$1
# Without a GPU and without a given ARCH nothing of the GPU code runs: tests, examples and benchmarks
# are then compiled to PTX only, which takes half of the time. `make check` assembles all kernels.
PTX_ONLY := $(if $(GPU)$(filter-out file,$(origin ARCH)),,yes)
# Code that does not run need not be fast, where nvcc can save the time.
HASTY    := $(if $(and $(PTX_ONLY),$(NVCC)),$(shell $(NVCC) --help 2>/dev/null | \
              grep -q -e --Ofast-compile && echo --Ofast-compile=max))
# Code that is only compiled ends at the front ends, where the compiler knows how: that instantiates all
# templates, and `make check` makes machine code of all kernels. GPU tests are linked all the same.
FRONT    := $(if $(NVCC),$(shell $(NVCC) --help 2>/dev/null | grep -oe '-fdevice-syntax-only' | head -n 1))
FRONTS   := $(if $(FRONT),$(FRONT) -Xcompiler -fsyntax-only)
# Newer compilers share the kernels of a file among the cores.
SPLIT    := $(if $(NVCC),$(shell $(NVCC) --help 2>/dev/null | \
              grep -q -e '--split-compile <' && echo --split-compile=0))
comma    := ,
build_for = $(if $(PTX_ONLY),$(call ptx,$1),$(call gencode,$1)) $(HASTY) $(call plain,$1)
BUILT    := $(if $(PTX_ONLY),compute,sm)_$(ARCH)

# Prints one line for each step. The output of the compiler is shown only if it fails, in one piece.
step = @mkdir -p $(@D); echo '$1'; \
       $2 >$@.log 2>&1 || { echo 'FAILED: $1'; cat $@.log; rm -f $@; exit 1; }

# ---- what people type ---------------------------------------------------------------------------

.PHONY: help all run test judge bench figures check registers sanitize tensorrt arch install format clean
.DEFAULT_GOAL := help
# No built-in rules: one would make the folder tests/gpu of tests/gpu.sh.
.SUFFIXES:

PREFIX ?= /usr/local

help:
	@echo 'make run       labels a street, or your scan, and draws it: on the GPU if there is one'
	@echo '               SCAN=file (.bin .pcd.bin .npy .pcd .ply .las .csv ...), VOXEL=metres, NET=name, ONNX=file,'
	@echo '               WEIGHTS=blob, ARGS=... (--columns 4 for a .bin file of KITTI)'
	@echo '               NET=generate grows a shape instead (a small one without a GPU)'
	@echo 'make test      runs the host tests; compiles the GPU code, and tests it if there is a GPU'
	@echo 'make judge     compares the networks of detectors with spconv, where it is installed'
	@echo 'make bench     builds the benchmarks'
	@echo 'make figures   runs them on a GPU, fills the tables, draws the plots: bench/figures.sh'
	@echo '               QUICK=1, FIGURES=map,conv (parts), FROM=folder of JSON lines, TO=folder'
	@echo 'make check     headers alone, layers, cost of an include, architectures, spills, linkage'
	@echo 'make sanitize  host tests under the address and undefined-behaviour sanitizers'
	@echo 'make tensorrt  builds the TensorRT plugin and its test: TENSORRT=folder of NvInfer.h'
	@echo 'make all       builds everything, runs nothing'
	@echo 'make arch      prints what to pass to nvcc for the GPUs of this machine (or ARCH=...)'
	@echo 'make registers prints registers and spills of the kernels for sm_90a (FOR=hopper: with this in their names)'
	@echo 'make install   headers, tables of networks, checkpoint.py, CMake package, pkg-config file, to PREFIX ($(PREFIX)); DESTDIR'
	@echo 'make format    runs clang-format'
	@echo 'make clean     removes build/'

# On the GPU, the scan is compiled for the number format that it runs in alone, by all cores.
ifneq (,$(and $(NVCC),$(GPU)))
# Weights with ranges run in int8: a blob of version 2, or layers of an .onnx file whose attribute
# precision is "int8" (libspconv) or 1 (Autoware). $(call given,--onnx): of ARGS
given     = $(patsubst $1=%,%,$(filter $1=%,$(subst $1 ,$1=,$(ARGS))))
BLOB      = $(or $(WEIGHTS),$(call given,--weights))
GRAPH     = $(if $(BLOB),,$(wildcard $(or $(ONNX),$(call given,--onnx))))
QUANTISED = $(if $(wildcard $(BLOB)),$(filter 2,$(shell od -An -tu4 -j8 -N4 '$(BLOB)'))) \
            $(if $(GRAPH),$(shell LC_ALL=C grep -qaP 'precision(\x18\x01|\x22\x04int8)' '$(GRAPH)' && echo yes))
RUN     := build/scan_$(or $(firstword $(filter int8 fp16 bf16 tf32 fp32,$(ARGS))),$(if $(strip $(QUANTISED)),int8,fp16))
RUN_WHY := on the GPU: $(GPU), with $(NVCC) for sm_$(ARCH)
else
RUN     := build/host_scan
RUN_WHY := on the CPU, with $(CXX): there is no $(if $(NVCC),GPU,nvcc)
endif

# Without a network of the user's: the one of examples/street.blob, on a street that its training has
# not seen.
STREET   = $(if $(strip $(NET)$(ONNX)$(WEIGHTS)$(findstring --net,$(ARGS))$(findstring --weights,$(ARGS))$(findstring \
             --onnx,$(ARGS))),,--net SpUNet-small --weights examples/street.blob --voxel 0.1 --seed 114)
RUN_ARGS = $(STREET) $(if $(SCAN),--scan '$(SCAN)') $(if $(VOXEL),--voxel '$(VOXEL)') \
           $(if $(NET),--net '$(NET)') $(if $(ONNX),--onnx '$(ONNX)') $(if $(WEIGHTS),--weights '$(WEIGHTS)') $(ARGS)

ifeq ($(NET),generate)
run: $(if $(and $(NVCC),$(GPU)),build/example_generate,build/host_generate)
	@$< --picture generate.png $(ARGS)
else
run: $(RUN)
	@echo 'scan: $(RUN_WHY)'
	@$(RUN) $(RUN_ARGS)
endif

# nvcc $(make -s arch) ...
GPU_FLAGS := $(foreach a,$(if $(filter file,$(origin ARCH)),$(GPU_ARCHS),$(ARCH)),$(call gencode,$a))
arch:
	@$(if $(GPU_FLAGS),echo '$(strip $(GPU_FLAGS))', \
	      echo 'No GPU here. Name it: make arch ARCH=90a for H100 and H200; 80 for A100; 86, 89, 100' \
	           'or 120 for GeForce, RTX and Blackwell GPUs of this compute capability;' \
	           '87 for Orin; 110 for Thor.' >&2; exit 1)

INSTALL := $(DESTDIR)$(PREFIX)
VERSION := $(shell sed -n 's/.*SPIRA_VERSION_[A-Z]* //p' spira/config.h | paste -sd. -)

# Tables of networks: <spira_networks/detectors.h>. They include ../spira/net.h.
NETWORKS := examples/detectors.h examples/network.h examples/networks.h examples/ptv3.h

install:
	@set -e; for header in $(HEADERS); do \
	      install -d "$(INSTALL)/include/$$(dirname $$header)"; \
	      install -m 644 $$header "$(INSTALL)/include/$$header"; done
	@install -d '$(INSTALL)/include/spira_networks' '$(INSTALL)/share/cmake/spira' '$(INSTALL)/share/pkgconfig' \
	      '$(INSTALL)/share/doc/spira' '$(INSTALL)/share/spira'
	@install -m 644 $(NETWORKS) '$(INSTALL)/include/spira_networks'
	@install -m 755 examples/checkpoint.py '$(INSTALL)/share/spira'
	@install -m 644 examples/checkpoint_networks.py examples/checkpoint_onnx.py '$(INSTALL)/share/spira'
	@install -m 644 LICENSE spira/CHANGELOG.md '$(INSTALL)/share/doc/spira'
	@install -m 644 spira/cmake/*.cmake '$(INSTALL)/share/cmake/spira'
	@sed 's/@VERSION@/$(VERSION)/' spira/cmake/spira.pc.in >'$(INSTALL)/share/pkgconfig/spira.pc'
	@echo 'spira $(VERSION): headers in $(INSTALL)/include, tables of networks in spira_networks beside them;' \
	      'CMake package, spira.pc and spira/checkpoint.py in $(INSTALL)/share'

HOST_BUILDS := build/test_host build/test_fast_math $(if $(wildcard examples/scan.cu),build/host_scan build/host_levels build/host_quantize build/host_generate)
GPU_BUILDS  := $(EXAMPLES:examples/%.cu=build/example_%) $(BENCHES:bench/%.cu=build/bench_%)
# ... which are only compiled where they could not run: in two parts (tests/unite.sh), but for those that
# give headers macros or namespaces of theirs, use spira's namespace, or rely on the end of main. The
# engine is part of tests/gpu/calls.cu.
FRONT_ALONE  := $(filter $(patsubst %,examples/%.cu,density levels quantize scan stream),$(EXAMPLES))
FRONT_UNITED := $(filter-out $(FRONT_ALONE) examples/engine.cu,$(EXAMPLES) $(BENCHES))
GPU_MADE     := $(if $(PTX_ONLY),$(FRONT_ALONE:%.cu=build/fronts/%.ok) \
                  $(if $(FRONT_UNITED),build/fronts/part_0.ok build/fronts/part_1.ok),$(GPU_BUILDS))
TESTS_BUILT := $(if $(NVCC),build/test_gpu build/test_calls build/test_dry $(if $(CUBLAS),build/test_cublas))

all: $(HOST_BUILDS) $(TESTS_BUILT) $(if $(NVCC),$(GPU_MADE))

# GPU tests that cannot be compiled, for want of nvcc or cuBLAS, are counted as skipped.
UNBUILT = $(shell cat $(if $(NVCC),tests/gpu/cublas.cu,$(CUDA_TESTS) tests/dry/launches.cpp) | grep -cE '^(DEVICE_)?TEST.[a-z]')

# A recipe that names MAKE itself would run under `make -n`.
THIS_MAKE := $(MAKE)

# Tests on the GPU measure and need it alone. Threads that spin while they wait would cost cores.
TOGETHER := $(if $(GPU),,TALLY_JOBS=2 OMP_WAIT_POLICY=passive)

test: all
	@$(if $(NVCC),$(if $(GPU),,echo 'no GPU: the GPU code was compiled and is not run'), \
	      echo 'no nvcc: the GPU code was neither compiled nor run')
	@$(if $(CUBLAS),,TALLY_SKIPPED=$(UNBUILT)) $(TOGETHER) tests/tally.sh \
	      'build/test_host --part 0/2' 'build/test_host --part 1/2' \
	      'build/test_fast_math $(FAST_MATH_NAMES)' \
	      $(foreach t,$(TESTS_BUILT),'$(if $(GPU),SPIRA_NEED_GPU=1) $t') \
	      'tests/run_layers.sh --self-test' 'tests/run_spills.sh --self-test' \
	      'tests/run_units.sh --self-test' \
	      'MAKE="$(THIS_MAKE)" CXX="$(CXX)" NVCC="$(NVCC)" tests/run_consumers.sh' \
	      'tests/run_scan.sh build/host_scan build/host_generate' \
	      'MAKE="$(THIS_MAKE)" PYTHON=$(PYTHON) tests/run_quantize.sh build/host_quantize build/host_scan' \
	      'PYTHON=$(PYTHON) tests/run_checkpoint.sh build/host_scan build/host_levels' \
	      'PYTHON=$(PYTHON) tests/run_judge.sh build/host_levels' tests/run_figures.sh \
	      'PYTHON=$(PYTHON) tests/run_deploy.sh build/host_scan build/host_levels' tests/run_torch.sh \
	      'MAKE="$(THIS_MAKE)" TENSORRT="$(TENSORRT)" NVCC="$(NVCC)" tests/run_tensorrt.sh'

JUDGED := $(if $(and $(NVCC),$(GPU)),build/example_levels,build/host_levels)
judge: $(JUDGED)
	@$(or $(PYTHON),python3) tests/judge.py $(JUDGED) $(ARGS)

ifeq (,$(NVCC))
bench:
	@echo 'the benchmarks need nvcc'; exit 1
else
bench: $(filter build/bench_%,$(GPU_BUILDS))
	@echo 'These print one JSON object a line: $(or $^,(there is none yet))'
	@echo 'Pass the scans to measure: build/bench_map data/*.vox32'
endif

# Programs are built only where they can run. ARCH=90: code without Hopper's own instructions.
FIGURES_ARCH  := ARCH='$(if $(filter file,$(origin ARCH)),,$(ARCH))'
FIGURES_BUILT := $(if $(and $(filter figures,$(MAKECMDGOALS)),$(NVCC),$(GPU)),$(if $(FROM),, \
                   $(filter build/bench_%,$(shell FIGURES='$(FIGURES)' $(FIGURES_ARCH) bench/figures.sh --programs))))

figures: $(FIGURES_BUILT)
	@GPU='$(if $(NVCC),$(GPU))' QUICK='$(QUICK)' FIGURES='$(FIGURES)' FROM='$(FROM)' TO='$(TO)' \
	      SCANS='$(SCANS)' COMMIT='$(COMMIT)' $(FIGURES_ARCH) bench/figures.sh

format:
	$(CLANG_FORMAT) -i $(SOURCES)

clean:
	rm -rf build

# ---- tests, examples, benchmarks ----------------------------------------------------------------

# A test file that was deleted must no longer be linked: the folder is then newer than the binary.
build/test_host build/test_gpu build/test_race build/test_sanitize: tests/host tests/gpu

build/test_cublas build/bench_cublas: LIBS := -lcublas \
    -Xlinker -rpath=$(abspath $(dir $(firstword $(CUBLAS)))../lib64)

# Kernels that the host runs (support/emulate.h) have CUDA's #pragma unroll. Their dynamic shared
# memory is extern thread_local, for which g++ would look for an initialiser in another file, and their
# threads are fibers, between which a fortified longjmp does not jump. They are compiled as C++20, which
# warns of more than C++17.
EMULATED := $(patsubst tests/host/%.cpp,%.o,$(shell grep -l 'emulate.*h"' $(HOST_TESTS)))
$(foreach o,host sanitize fast_math,$(EMULATED:%=build/$o/%)): \
    STRICT += -Wno-unknown-pragmas -U_FORTIFY_SOURCE $(call accepted,-fno-extern-tls-init)
STRICTEST := $(if $(call accepted,-std=c++20),c++20,c++17)
$(EMULATED:%=build/host/%): STANDARD := $(STRICTEST)

# The PyTorch package includes spira as a user does.
build/host/torch_norm.o build/sanitize/torch_norm.o: HOSTFLAGS += -I.

# -O2 takes half as long again to compile, and saves a tenth of the tests' time.
build/host/%.o: tests/host/%.cpp
	$(call step,c++ $<,$(CXX) -O1 $(HOSTFLAGS) $(DEPENDS) -c $< -o $@)

# Most are compiled some at a time (tests/unite.sh), which takes half as long; not what includes the
# package of PyTorch, and of the kernels that the host runs only sorts and voxels: others emulate one
# instruction in different ways.
HOST_PLAIN   := $(filter-out $(EMULATED:%.o=tests/host/%.cpp) tests/host/harness.cpp tests/host/torch_norm.cpp,$(HOST_TESTS))
HOST_KERNELS := $(patsubst %,tests/host/%.cpp,pool radix sort voxel_features voxel_limits)
HOST_ALONE   := $(filter-out $(HOST_PLAIN) $(HOST_KERNELS),$(HOST_TESTS))
HOST_UNITS   := plain_0 plain_1 plain_2 plain_3 kernels_0

build/host_units/plain_%.cpp: tests/unite.sh $(HOST_PLAIN)
	@mkdir -p $(@D); tests/unite.sh $* 4 $(HOST_PLAIN) >$@.new; cmp -s $@ $@.new || mv $@.new $@

build/host_units/kernels_%.cpp: tests/unite.sh $(HOST_KERNELS)
	@mkdir -p $(@D); tests/unite.sh $* 1 $(HOST_KERNELS) >$@.new; cmp -s $@ $@.new || mv $@.new $@

build/host_units/kernels_0.o: STRICT += -Wno-unknown-pragmas -U_FORTIFY_SOURCE $(call accepted,-fno-extern-tls-init)
build/host_units/kernels_0.o: STANDARD := $(STRICTEST)

build/host_units/%.o: build/host_units/%.cpp
	$(call step,c++ tests/host ($*),$(CXX) -O1 $(HOSTFLAGS) -Itests/host $(DEPENDS) -c $< -o $@)

.PRECIOUS: build/host_units/%.cpp

build/test_host: $(HOST_UNITS:%=build/host_units/%.o) $(HOST_ALONE:tests/host/%.cpp=build/host/%.o)
	$(call step,link $@,$(CXX) $(OPENMP) -pthread $(filter %.o,$^) -o $@)

# Users may compile with -ffast-math. NaN and infinity must be found all the same: the tests that are
# about them are compiled with it, too.
FAST_MATH_TESTS := numeric voxel conv pool blob
FAST_MATH_NAMES := nan finite voxelize_refuses voxel_bounds_refuses

build/fast_math/%.o: tests/host/%.cpp
	$(call step,c++ $< (-ffast-math),$(CXX) -O2 -ffast-math -include tests/support/fast_math.h \
	      $(HOSTFLAGS) $(DEPENDS) -c $< -o $@)

build/test_fast_math: $(FAST_MATH_TESTS:%=build/fast_math/%.o) build/host/harness.o
	$(call step,link $@,$(CXX) $(OPENMP) -pthread $^ -o $@)

build/gpu_$(ARCH)/%.o: tests/gpu/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) \
	      $(if $(PTX_ONLY),$(FRONT)) $(DEPENDS) -c $< -o $@)

build/gpu_$(ARCH)/%.o build/gpu_units/%.o build/race_$(ARCH)/%.o build/scan/%.o: HOST_LEVEL = $(if $(PTX_ONLY),-O0,-O1)
$(CHECK)/%.ok: HOST_LEVEL = -O0
build/scan/%.o: LINES :=

# Where they are not run, they are compiled some at a time: the headers cost more than the tests. Not
# those that give headers a macro or declarations of theirs, and what has main or others' symbols.
ALONE   := $(if $(PTX_ONLY),$(wildcard $(patsubst %,tests/gpu/%.cu,harness shared_conv shared_net portable conv_i8 \
             grad_around)),$(GPU_TESTS))
UNITED  := $(filter-out $(ALONE),$(GPU_TESTS))
UNITING := $(if $(UNITED),0 1 2 3 4 5)

build/gpu_units/%.cu: tests/unite.sh $(UNITED)
	@mkdir -p $(@D); tests/unite.sh $* $(words $(UNITING)) $(UNITED) >$@.new; \
	      cmp -s $@ $@.new || mv $@.new $@

build/gpu_units/%.o: build/gpu_units/%.cu
	$(call step,nvcc tests/gpu (part $* of $(words $(UNITING))$(comma) $(BUILT)), \
	      $(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(FRONT) -Itests/gpu $(DEPENDS) -c $< -o $@)

.PRECIOUS: build/gpu_units/%.cu build/fronts/part_%.cu

build/test_gpu: $(ALONE:tests/gpu/%.cu=build/gpu_$(ARCH)/%.o) $(UNITING:%=build/gpu_units/%.o)
build/test_cublas: build/gpu_$(ARCH)/cublas.o build/gpu_$(ARCH)/shared_conv.o

# Kernels as racecheck can follow them (SPIRA_RACECHECK in spira/base/async.cuh).
build/race_$(ARCH)/%.o: tests/gpu/%.cu
	$(call step,nvcc $< (racecheck),$(NVCC) $(NVCCFLAGS) -DSPIRA_RACECHECK $(call build_for,$(ARCH)) \
	      $(DEPENDS) -c $< -o $@)

build/test_race: $(GPU_TESTS:tests/gpu/%.cu=build/race_$(ARCH)/%.o)

# tests/gpu/calls.cu counts its calls of the CUDA runtime: the linker sends each function that the
# object calls through a stub (tests/support/calls_wrap.cpp).
CALLS := build/gpu_$(ARCH)/calls

$(CALLS).list: $(CALLS).o
	$(call step,list the calls of $<,{ nm -u $< | awk '$$NF ~ /^_*cu/ { print "CALL(" $$NF ")" }' >$@ && \
	      [ -s $@ ]; })

$(CALLS)_wrap.o: tests/support/calls_wrap.cpp $(CALLS).list
	$(call step,c++ $<,$(CXX) -O2 $(HOSTFLAGS) $(DEPENDS) '-DCALLS_LIST="$(abspath $(CALLS).list)"' \
	      -c $< -o $@)

build/test_calls: $(CALLS).o $(CALLS)_wrap.o
build/test_calls: LIBS = $$(sed 's/CALL(\(.*\))/-Xlinker --wrap=\1/' $(CALLS).list)

build/test_gpu build/test_cublas build/test_calls build/test_race:
	$(call step,link $@,$(NVCC) -Xcompiler -fopenmp $(call build_for,$(ARCH)) $(filter %.o,$^) $(LIBS) -o $@)

# What the host does when a launch fails: with a CUDA runtime that launches nothing (tests/dry). No code
# of kernels is made.
build/dry/%.o: tests/dry/%.cu
	$(call step,nvcc $< (front end),$(NVCC) $(NVCCFLAGS) $(call ptx,75) $(call ptx,90a) $(HASTY) $(FRONT) \
	      $(DEPENDS) -c $< -o $@)

build/dry/%.o: HOST_LEVEL := -O0
build/dry/%.o: LINES :=

DRY_INCLUDES := $(if $(NVCC),-isystem $(dir $(NVCC))../include)

build/dry/kernels.list: $(filter %.cuh,$(HEADERS))
	$(call step,list the kernels,{ grep -rhoP '\b[a-z0-9_]+_kernel(?=\x28)' spira --include=*.cuh | sort -u | \
	      sed 's/.*/KERNEL(&)/' >$@ && [ -s $@ ]; })

build/dry/launches.o: tests/dry/launches.cpp build/dry/kernels.list
	$(call step,c++ $<,$(CXX) -O1 $(HOSTFLAGS) '-DKERNELS_LIST="$(abspath build/dry/kernels.list)"' $(if $(CUBLAS),-DDRY_CUBLAS) $(DRY_INCLUDES) $(DEPENDS) -c $< -o $@)

build/dry/cudart.o: tests/dry/cudart.c
	$(call step,cc $<,$(CC) -O1 $(STRICT) -DDRY_ALONE $(DRY_INCLUDES) $(DEPENDS) -c $< -o $@)

build/test_dry: $(patsubst %,build/dry/%.o,launches cudart calls layers $(if $(CUBLAS),calls_cublas))
	$(call step,link $@,$(CXX) -fopenmp $(filter %.o,$^) -o $@)

# Binaries for another architecture are built again, and so are objects whose kernels were not.
SCANS_BUILT := $(foreach f,int8 fp16 bf16 tf32 fp32,build/scan_$f $(foreach p,1 2 3,build/scan/$f.$p.o))
$(TESTS_BUILT) build/test_race $(GPU_BUILDS) $(SCANS_BUILT): build/arch_$(BUILT)
$(if $(PTX_ONLY),,$(CUDA_TESTS:tests/gpu/%.cu=build/gpu_$(ARCH)/%.o)): build/arch_$(BUILT)

build/arch_$(BUILT):
	@mkdir -p build; rm -f build/arch_*; touch $@

build/example_%: examples/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(DEPENDS) $< -o $@)

# ... with one number format: make run.
SIDE_FORMAT_int8 := numeric_i8
SIDE_FORMAT_fp16 := numeric_f16
SIDE_FORMAT_bf16 := numeric_bf16
SIDE_FORMAT_tf32 := numeric_tf32
SIDE_FORMAT_fp32 := numeric_f32

build/scan_%: build/scan/%.1.o build/scan/%.2.o build/scan/%.3.o
	$(call step,link $@,$(NVCC) -Xcompiler -fopenmp $(call build_for,$(ARCH)) $(filter %.o,$^) -o $@)

# build/scan/fp16.1.o: part 1
build/scan/%.o: examples/scan.cu
	$(call step,nvcc $< ($(BUILT)$(comma) $*),$(NVCC) $(NVCCFLAGS) $(SPLIT) $(call build_for,$(ARCH)) \
	      -DSIDE_FORMAT=spira::$(SIDE_FORMAT_$(basename $*)) -DSCAN_PART=$(patsubst .%,%,$(suffix $*)) \
	      $(DEPENDS) -c $< -o $@)

.PRECIOUS: build/scan/%.o

build/bench_%: bench/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(DEPENDS) $< $(LIBS) -o $@)

build/fronts/%.ok: %.cu
	$(call step,nvcc $<,{ $(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) $(FRONTS) $(DEPENDS) -c $< \
	      -o $(@:.ok=.o) && touch $@; })

build/fronts/part_%.cu: tests/unite.sh $(FRONT_UNITED)
	@mkdir -p $(@D); tests/unite.sh $* 2 $(FRONT_UNITED) >$@

build/fronts/part_%.ok: build/fronts/part_%.cu
	$(call step,nvcc examples$(comma) bench (part $* of 2),{ $(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) \
	      $(FRONTS) -Ibench -Iexamples $(DEPENDS) -c $< -o $(@:.ok=.o) && touch $@; })

# The TensorRT plugin, and its test, which counts the calls of the CUDA runtime that the library makes.
# TENSORRT: the folder of NvInfer.h
TENSORRT ?= $(patsubst %/,%,$(dir $(firstword $(wildcard /usr/include/NvInfer.h /usr/include/*/NvInfer.h))))
PLUGINS := build/tensorrt/plugin.gpu.o build/tensorrt/plugin_autoware.gpu.o
CUDART := $(if $(NVCC),$(abspath $(dir $(NVCC))../lib64))

build/tensorrt/%.gpu.o: examples/tensorrt/%.cu
	$(call step,nvcc $< ($(BUILT)),$(NVCC) $(NVCCFLAGS) $(call build_for,$(ARCH)) -Xcompiler -fPIC \
	      -isystem '$(TENSORRT)' $(DEPENDS) -c $< -o $@)

$(PLUGINS): build/arch_$(BUILT)

build/tensorrt/libspira_tensorrt.so: $(PLUGINS)
	$(call step,link $@,$(NVCC) $(call build_for,$(ARCH)) -shared -cudart shared $(PLUGINS) -o $@)

build/tensorrt/plugin.o: tests/tensorrt/plugin.cpp
	$(call step,c++ $<,$(CXX) -O1 $(HOSTFLAGS) -isystem '$(TENSORRT)' -isystem $(CUDART)/../include \
	      $(DEPENDS) -c $< -o $@)

build/tensorrt/test: build/tensorrt/plugin.o build/host/harness.o
	$(call step,link $@,$(CXX) $(OPENMP) -pthread -rdynamic $^ -L$(CUDART) -Xlinker -rpath=$(CUDART) \
	      -lcudart -ldl -o $@)

build/tensorrt/libdry.so: tests/dry/cudart.c
	$(call step,cc $<,$(CC) -O1 $(STRICT) -fPIC -shared -isystem $(CUDART)/../include $< -o $@)

ifneq (,$(and $(NVCC),$(wildcard $(TENSORRT)/NvInfer.h)))
tensorrt: build/tensorrt/libspira_tensorrt.so build/tensorrt/test build/tensorrt/libdry.so
else
tensorrt:
	@echo 'make tensorrt TENSORRT=FOLDER: the folder of NvInfer.h, in TensorRT 10 or 11 (include/ of the' \
	      'archive, or package libnvinfer-headers-dev). $(if $(NVCC),$(or \
	      $(TENSORRT),/usr/include) has no NvInfer.h,It needs nvcc: NVCC=PATH).' >&2; exit 2
endif

# The same source, as plain C++.
build/host_%: examples/%.cu
	$(call step,c++ $<,$(CXX) $(FASTFLAGS) $(DEPENDS) -x c++ $< -o $@)

# ... in parts: make run. The reader of .onnx files needs no optimisation.
SCAN_PARTS := build/scan/host.1.o build/scan/host.2.o build/scan/host.32.o build/scan/host.64.o

build/scan/host.%.o: examples/scan.cu
	$(call step,c++ $< (part $*),$(CXX) $(FASTFLAGS) $(if $(filter 2,$*),-O0) -DSCAN_PART=$* $(DEPENDS) \
	      -c -x c++ $< -o $@)

build/host_scan: $(SCAN_PARTS)
	$(call step,link $@,$(CXX) $(OPENMP) $(filter %.o,$^) -o $@)

SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover

build/sanitize/%.o: tests/host/%.cpp
	$(call step,c++ $< (sanitizers),$(CXX) $(SANITIZE) $(HOSTFLAGS) $(DEPENDS) -c $< -o $@)

build/test_sanitize: $(HOST_TESTS:tests/host/%.cpp=build/sanitize/%.o)
	$(call step,link $@,$(CXX) $(SANITIZE) $(OPENMP) -pthread $(filter %.o,$^) -o $@)

sanitize: build/test_sanitize
	@SPIRA_QUICK=1 SPIRA_EXACT=1 build/test_sanitize

# ---- checks: one .ok file for each, so that only what changed is checked again -------------------

ARCHS := 90a 75 80 100
# Every GPU that the compiler knows: the umbrella, and a layer from points to features.
KNOWN_ARCHS := 75 80 86 87 89 90 90a 100 103 110 120 121
FRONT_ARCHS := $(if $(NVCC),$(filter 90a $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch 2>/dev/null)),$(KNOWN_ARCHS)))
HOST_HEADERS := $(filter %.h spira.cuh,$(HEADERS))
NVCC_HEADERS := $(filter-out $(if $(CUBLAS),,spira/cublas.cuh spira/gemm/%),$(filter %.cuh,$(HEADERS)))
NVRTC        := $(if $(NVCC),$(dir $(firstword $(wildcard $(dir $(NVCC))../include/nvrtc.h \
                  $(dir $(NVCC))../targets/*/include/nvrtc.h))))
UNITS        := $(patsubst tests/build/units/%.cu,%,$(wildcard tests/build/units/*.cu))

HOST_CHECKS  := $(HOST_HEADERS:%=$(CHECK)/g++/%.ok) $(CHECK)/layers.ok $(CHECK)/windows.ok \
                $(CHECK)/readme_cpu.ok
CLANG_CHECKS := $(CHECK)/clang.ok
# clang as the compiler of kernels: one that knows sm_90a, with the toolkit of nvcc. Only `make check`
# asks it.
CLANG_CUDA   := $(if $(and $(CLANG),$(NVCC),$(filter check,$(MAKECMDGOALS))),$(shell $(CLANG) -x cuda --cuda-gpu-arch=sm_90a \
                  --cuda-path=$(dir $(NVCC)).. -fsyntax-only /dev/null 2>/dev/null && echo yes))
CUDA_CHECKS  := $(CHECK)/clang_cuda.ok
ARM_CHECKS   := $(CHECK)/aarch64.ok
NVCC_CHECKS  := $(ARCHS:%=$(CHECK)/arch/%.ok) $(CHECK)/spills.ok $(CHECK)/link.ok \
                $(CHECK)/linkage.ok $(CHECK)/readme.ok $(CHECK)/readme_headers.ok \
                $(UNITS:%=$(CHECK)/units/%.ok) $(FRONT_ARCHS:%=$(CHECK)/stream/%.ok) \
                $(FRONT_ARCHS:%=$(CHECK)/include/%.ok) $(CHECK)/fast_math.ok \
                $(NVCC_HEADERS:%=$(CHECK)/nvcc/%.ok) $(if $(NVRTC),$(CHECK)/nvrtc.ok)
FORMAT_CHECK := $(CHECK)/format.ok

CHECKS  := $(if $(NVCC),$(NVCC_CHECKS)) $(HOST_CHECKS) $(if $(CLANG),$(CLANG_CHECKS)) \
           $(if $(ARM),$(ARM_CHECKS)) $(if $(CLANG_FORMAT),$(FORMAT_CHECK)) \
           $(if $(CLANG_CUDA),$(CUDA_CHECKS))
SKIPPED := $(filter-out $(CHECKS),$(NVCC_CHECKS) $(CLANG_CHECKS) $(CUDA_CHECKS) $(ARM_CHECKS) \
             $(FORMAT_CHECK))
LACKING := $(if $(NVCC),,nvcc) $(if $(CLANG),,clang++) $(if $(ARM),,aarch64-linux-gnu-g++) \
           $(if $(CLANG_FORMAT),,clang-format) $(if $(CLANG_CUDA),,clang++ for sm_90a)

# A check that fails prints its log and leaves no .ok file. The others go on, and `check` counts.
attempt = @mkdir -p $(@D); rm -f $@; \
          if { $2; } >$(@:.ok=.log) 2>&1; then echo 'ok      $1'; touch $@; \
          else echo 'FAILED  $1'; cat $(@:.ok=.log); fi

check: $(CHECKS)
	@$(if $(SKIPPED),echo 'skipped $(words $(SKIPPED)) checks for want of: $(LACKING)')
	@$(if $(NVCC),echo 'the cost of a translation unit compiled by nvcc for sm_90a:'; \
	      tail -qn 1 $(UNITS:%=$(CHECK)/units/%.log))
	@passed=$$(ls $(CHECKS) 2>/dev/null | wc -l); failed=$$(($(words $(CHECKS)) - passed)); \
	      echo "$$passed passed, $$failed failed, $(words $(SKIPPED)) skipped"; [ $$failed = 0 ]

# Each header compiles on its own: in a file that includes it and nothing else.
alone = echo '\#include "$(abspath $<)"' >$(@:.ok=.$1)

$(CHECK)/g++/%.ok: %
	$(call attempt,$* alone under $(CXX),$(call alone,cpp) && \
	      $(CXX) $(HOSTFLAGS) $(DEPENDS) -c $(@:.ok=.cpp) -o $(@:.ok=.o))

# The kernels of maps, layouts and convolutions under clang. The program runs on a GPU alone.
$(CHECK)/clang_cuda.ok: tests/build/compiler.cu spira.cuh $(HEADERS)
	$(call attempt,kernels under clang++,$(CLANG) -std=c++17 -x cuda --cuda-gpu-arch=sm_90a \
	      --cuda-path=$(dir $(NVCC)).. -Wno-unknown-cuda-version -O2 -I. -c $< -o $(@:.ok=.o))

# The host half of the umbrella under another compiler, in two standards.
$(CHECK)/clang.ok: spira.cuh
	$(call attempt,the umbrella under clang++,$(call alone,cpp) && \
	      $(CLANG) -std=c++17 $(STRICT) $(DEPENDS) -c $(@:.ok=.cpp) -o $(@:.ok=.o) && \
	      $(CLANG) -std=c++20 $(STRICT) -Wconversion -Wsign-conversion -Wshadow \
	           -c $(@:.ok=.cpp) -o $(@:.ok=.o))

# ... behind <windows.h>, or where there is no such header, with the macros that it defines; kernels
# always with these.
WINDOWS_MACROS := -Dnear= -Dfar= -Dsmall=char -Dinterface=struct -Dhyper=__int64
$(CHECK)/windows.ok: spira.cuh
	$(call attempt,the umbrella behind windows.h,$(call alone,cpp) && \
	      $(if $(MINGW),$(MINGW) -include winsock2.h -include windows.h,$(CXX) $(WINDOWS_MACROS)) \
	      -std=c++17 $(STRICT) $(DEPENDS) -c $(@:.ok=.cpp) -o $(@:.ok=.o) \
	      $(if $(NVCC),&& $(NVCC) -std=c++17 $(call ptx,90a) $(HASTY) $(FRONT) $(WINDOWS_MACROS) \
	           -include spira/cublas.cuh -ptx tests/build/all_kernels.cu -o $(@:.ok=.ptx)))

# ... for aarch64, and the tests of what depends on the machine.
ARM_TESTS := harness numeric word offset status
$(CHECK)/aarch64.ok: $(HOST_HEADERS) tests/support/test.h $(ARM_TESTS:%=tests/host/%.cpp)
	$(call attempt,aarch64$(if $(QEMU),, (not run)), \
	      $(ARM) -std=c++17 $(STRICT) -fsyntax-only -include spira.cuh -x c++ /dev/null && \
	      $(ARM) -std=c++17 -O1 $(STRICT) -static $(ARM_TESTS:%=tests/host/%.cpp) -o $(@:.ok=) \
	      $(if $(QEMU),&& $(QEMU) $(@:.ok=)))

# To PTX only, which tells whether the header has all that it needs. The host compiler's warnings are
# those of all kernels.
$(CHECK)/nvcc/%.ok: %
	$(call attempt,$* alone under nvcc,$(call alone,cu) && \
	      $(NVCC) -std=c++17 -Werror all-warnings $(call ptx,90a) $(HASTY) $(FRONT) \
	      $(DEPENDS) -ptx $(@:.ok=.cu) -o $(@:.ok=.ptx))

# All kernels, down to machine code: fully optimised for sm_90a, whose spills are judged.
$(CHECK)/arch/%.ok: tests/build/all_kernels.cu
	$(call attempt,all kernels for sm_$*,$(NVCC) $(NVCCFLAGS) $(call gencode,$*) \
	      $(if $(filter 90a,$*),,$(HASTY)) -Xptxas -v $(DEPENDS) -c $< -o $(@:.ok=.o))

# Registers and spills of kernels: make registers FOR=hopper
registers: $(CHECK)/arch/90a.ok
	@echo 'registers, spilled bytes, kernel'; tests/run_spills.sh --registers $(CHECK)/arch/90a.log '$(FOR)'

$(CHECK)/spills.ok: $(CHECK)/arch/90a.ok tests/run_spills.sh
	$(call attempt,no spills on sm_90a,tests/run_spills.sh $(CHECK)/arch/90a.log)

# What a translation unit costs: kernels, registers and bytes, at most those of the table.
$(CHECK)/units/%.ok: tests/build/units/%.cu tests/build/units.txt tests/run_units.sh
	$(call attempt,the cost of tests/build/units/$*.cu,tests/run_units.sh tests/build/units.txt \
	      $(@:.ok=.o) $(NVCC) $(UNITFLAGS) $(call gencode,90a) -Xptxas -v $(DEPENDS) -c $< -o $(@:.ok=.o))

# The umbrella compiles for every architecture; for plain sm_90 it remarks on the lack of the "a".
$(CHECK)/include/%.ok: tests/build/units/include.cu
	$(call attempt,the umbrella for sm_$*,$(NVCC) $(NVCCFLAGS) $(call ptx,$*) $(FRONTS) $(DEPENDS) \
	      -c $< -o $(@:.ok=.o) >$@.said 2>&1; status=$$?; cat $@.said; [ $$status = 0 ] && \
	      $(if $(filter 90,$*),,!) grep -q 'has no Hopper kernels' $@.said)

# ... once with the ranges for profilers, where the toolkit has their header.
$(CHECK)/stream/%.ok: examples/stream.cu
	$(call attempt,examples/stream.cu for sm_$*,$(NVCC) $(NVCCFLAGS) $(call ptx,$*) $(HASTY) \
	      $(if $(filter 80,$*),-DSPIRA_NVTX) $(FRONTS) $(DEPENDS) -c $< -o $(@:.ok=.o))

# search.h compiles at run time, too.
$(CHECK)/nvrtc.ok: NVRTC_LIB = $(firstword $(wildcard $(NVRTC)../lib64) $(NVRTC)../lib)
$(CHECK)/nvrtc.ok: tests/build/nvrtc.cpp spira/search.h
	$(call attempt,search.h by NVRTC,$(CXX) $(HOSTFLAGS) $(DEPENDS) -I$(NVRTC) $< -L$(NVRTC_LIB) \
	      -Xlinker -rpath=$(NVRTC_LIB) -lnvrtc -o $(@:.ok=) && $(@:.ok=) . 75 80 90a 100)

$(CHECK)/fast_math.ok: tests/build/units/voxelize.cu
	$(call attempt,voxelize with --use_fast_math,$(NVCC) $(NVCCFLAGS) --use_fast_math \
	      -Xcompiler -ffast-math $(call ptx,90a) $(HASTY) $(FRONTS) $(DEPENDS) -c $< -o $(@:.ok=.o))

$(CHECK)/link_a.ok: ARCH := 80
$(CHECK)/link_b.ok: ARCH := 90a
$(CHECK)/link_%.ok: tests/build/link_%.cu
	$(call attempt,link_$*.cu for sm_$(ARCH),$(NVCC) $(NVCCFLAGS) $(call gencode,$(ARCH)) $(HASTY) \
	      $(DEPENDS) -c $< -o $(@:.ok=.o))

LINKED := $(CHECK)/link_a.ok $(CHECK)/link_b.ok

$(CHECK)/link.ok: $(LINKED)
	$(call attempt,sm_80 and sm_90a in one binary,$(NVCC) -Xcompiler -fopenmp $(LINKED:.ok=.o) \
	      -o $(@:.ok=))

# No function, kernel or variable of spira is visible to the linker.
$(CHECK)/linkage.ok: $(LINKED)
	$(call attempt,internal linkage,nm $(LINKED:.ok=.o) >$@.nm && \
	      ! grep -E ' [A-TV-Zui] _Z[A-Z]*5spira' $@.nm)

# The program for a CPU, compiled and run.
$(CHECK)/readme_cpu.ok: spira/README.md $(HOST_HEADERS)
	$(call attempt,the C++ program of spira/README.md,awk '/^```/ { on = /cpp/; next } on' $< \
	      >$(@:.ok=.cpp) && grep -q main $(@:.ok=.cpp) && \
	      $(CXX) $(HOSTFLAGS) -I. $(@:.ok=.cpp) -o $(@:.ok=) && $(@:.ok=))

# The blocks of a README that are marked as CUDA, as one file.
readme_of = $(call attempt,the CUDA blocks of $<,awk '/^```/ { on = /cuda/; next } on' $< \
	      >$(@:.ok=.cu) && grep -q spira $(@:.ok=.cu) && \
	      $(NVCC) $(NVCCFLAGS) -I. $(call ptx,90a) $(HASTY) $(FRONTS) -c $(@:.ok=.cu) -o $(@:.ok=.o))

$(CHECK)/readme.ok: README.md $(HEADERS)
	$(readme_of)

$(CHECK)/readme_headers.ok: spira/README.md $(HEADERS)
	$(readme_of)

$(CHECK)/layers.ok: tests/run_layers.sh tests/run_layers.py tests/layers.txt spira spira/README.md $(HEADERS)
	$(call attempt,layers,tests/run_layers.sh tests/layers.txt spira)

$(CHECK)/format.ok: .clang-format $(SOURCES)
	$(call attempt,format,$(CLANG_FORMAT) --dry-run -Werror $(SOURCES))

-include $(shell [ ! -d build ] || find build -name '*.d')
