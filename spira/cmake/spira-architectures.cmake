# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# spira-architectures.cmake: which CUDA architectures to compile spira for.
#
#     spira_architectures(target)            what the target has (CMAKE_CUDA_ARCHITECTURES)
#     spira_architectures(target native)     the GPUs of this machine
#     spira_architectures(target 80 90)      a list, in the notation of CUDA_ARCHITECTURES
#
# Sets CUDA_ARCHITECTURES of the target. In each of these, 90 becomes 90a-real: spira's fastest
# convolutions use instructions of Hopper that code for plain 90 does not have. CMake's own `native`
# means plain 90.

# `out`: the architectures in ARGN, with 90a for 90, each once.
function(spira_architectures_map out)
    set(mapped "")
    foreach(architecture IN LISTS ARGN)
        if(architecture MATCHES "^90(-real)?$")
            set(architecture 90a-real)
        endif()
        list(APPEND mapped "${architecture}")
    endforeach()
    list(REMOVE_DUPLICATES mapped)
    set(${out} "${mapped}" PARENT_SCOPE)
endfunction()

# `out`: the architectures of the GPUs in this machine; empty if there are none.
function(spira_architectures_native out)
    set(said "")
    find_program(SPIRA_NVIDIA_SMI nvidia-smi)
    mark_as_advanced(SPIRA_NVIDIA_SMI)
    if(SPIRA_NVIDIA_SMI)
        execute_process(COMMAND "${SPIRA_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
                        OUTPUT_VARIABLE said ERROR_QUIET)
    endif()
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${said}")
    set(found "")
    foreach(capability IN LISTS capabilities)
        string(REPLACE "." "" capability "${capability}")
        list(APPEND found "${capability}-real")
    endforeach()
    set(${out} "${found}" PARENT_SCOPE)
endfunction()

function(spira_architectures target)
    get_target_property(current ${target} CUDA_ARCHITECTURES)
    if(NOT current)
        set(current "")
    endif()
    set(wanted "${ARGN}")
    if(wanted STREQUAL "")
        set(wanted "${current}")
    endif()
    if("native" IN_LIST wanted)
        spira_architectures_native(native)
        if(native STREQUAL "")
            message(WARNING "spira: there is no GPU here to compile ${target} for; taking ${current}. "
                            "Name the architectures instead of `native`.")
            set(native "${current}")
        endif()
        list(REMOVE_ITEM wanted native)
        list(APPEND wanted ${native})
    endif()
    spira_architectures_map(wanted ${wanted})
    if(NOT wanted STREQUAL "")
        set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${wanted}")
        message(STATUS "spira: ${target} is compiled for the CUDA architectures ${wanted}")
    endif()
endfunction()
