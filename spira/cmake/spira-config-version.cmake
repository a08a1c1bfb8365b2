# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# spira-config-version.cmake: tells find_package the version, which spira/config.h defines.
# Versions with the same major number are compatible; before 1.0, those with the same minor number.
get_filename_component(spira_config "${CMAKE_CURRENT_LIST_DIR}/../config.h" ABSOLUTE)
if(NOT EXISTS "${spira_config}") # not a checkout: <prefix>/share/cmake/spira
    get_filename_component(spira_config "${CMAKE_CURRENT_LIST_DIR}/../../../include/spira/config.h"
                           ABSOLUTE)
endif()
file(STRINGS "${spira_config}" spira_lines REGEX "define SPIRA_VERSION_")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3"
                     PACKAGE_VERSION "${spira_lines}")

if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
    string(REGEX REPLACE "^(0\\.[0-9]+|[0-9]+).*" "\\1" spira_line "${PACKAGE_VERSION}")
    string(REGEX REPLACE "^(0\\.[0-9]+|[0-9]+).*" "\\1" spira_wanted "${PACKAGE_FIND_VERSION}")
    if(spira_line STREQUAL spira_wanted OR "${PACKAGE_FIND_VERSION}" MATCHES "^0?$")
        set(PACKAGE_VERSION_COMPATIBLE TRUE)
    endif()
endif()
