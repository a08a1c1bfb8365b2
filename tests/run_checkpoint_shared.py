# SPDX-License-Identifier: Apache-2.0 | Copyright 2026 the spira authors
# tests/run_checkpoint_shared.py: what run_checkpoint.py and run_checkpoint_networks.py share.
import importlib.util
import os
import sys

SCRIPT, PROGRAM, FOLDER = sys.argv[1:]
spec = importlib.util.spec_from_file_location("checkpoint", SCRIPT)
checkpoint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(checkpoint)

checks = {True: 0, False: 0}


def check(good, what):
    checks[bool(good)] += 1
    if not good:
        print(f"checkpoint.py: {what}")


def path(name):
    return os.path.join(FOLDER, name)


def finish(skipped=0):
    print(f"{checks[True]} passed, {checks[False]} failed, {skipped} skipped")
    sys.exit(checks[False] != 0)
