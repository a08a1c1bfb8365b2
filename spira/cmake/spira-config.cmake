# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# spira-config.cmake: defines the target spira::spira and the function spira_architectures.
#
#     find_package(spira REQUIRED)
#     target_link_libraries(engine PRIVATE spira::spira)
#     spira_architectures(engine native)     # of .cu files; see spira-architectures.cmake
#
# The target is a header-only library: the include path, C++17, and the include path of the CUDA
# toolkit where there is one. This file works in a checkout and in an installed prefix.
cmake_minimum_required(VERSION 3.18)
include("${CMAKE_CURRENT_LIST_DIR}/spira-architectures.cmake")

if(NOT TARGET spira::spira)
    get_filename_component(spira_include "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
    if(NOT EXISTS "${spira_include}/spira.cuh") # not a checkout: <prefix>/share/cmake/spira
        get_filename_component(spira_include "${CMAKE_CURRENT_LIST_DIR}/../../../include" ABSOLUTE)
    endif()
    add_library(spira::spira INTERFACE IMPORTED GLOBAL)
    target_include_directories(spira::spira INTERFACE "${spira_include}")
    unset(spira_include)

    get_property(spira_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    if("CXX" IN_LIST spira_languages)
        target_compile_features(spira::spira INTERFACE cxx_std_17)
    endif()
    if("CUDA" IN_LIST spira_languages)
        target_compile_features(spira::spira INTERFACE cuda_std_17)
    endif()
    unset(spira_languages)

    # Files of plain C++ that share a target with CUDA code include <cuda_runtime.h>, too.
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND)
        target_include_directories(spira::spira INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
    endif()
endif()
