// SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
// examples/arguments.h: what all examples with options do with their arguments.
#ifndef SPIRA_EXAMPLES_ARGUMENTS_H
#define SPIRA_EXAMPLES_ARGUMENTS_H

#include <stdio.h>
#include <string.h>

namespace side {

// Whether --help is among the arguments: the usage goes to stdout then, and the exit code is 0.
static inline bool help_asked(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            return true;
        }
    }
    return false;
}

// Says, behind a message about the arguments, where the options are listed. Returns the exit code.
static inline int arguments_refuse(const char *program) {
    fprintf(stderr, "%s --help lists the options\n", program);
    return 2;
}

// Returns the value of the option argv[*i] and moves *i to it; null, and a message, if it has none.
static inline const char *option_value(int argc, char **argv, int *i) {
    if (*i + 1 == argc) {
        fprintf(stderr, "%s: no such option, or its value is missing\n", argv[*i]);
        return nullptr;
    }
    return argv[++*i];
}

} // namespace side

#endif
