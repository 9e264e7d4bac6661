#!/usr/bin/env bash
# Prints the package's copyright file: ours, and the licences of the packages whose code is in the binary.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! compgen -G '.build/checkouts/*/LICENSE*' >/dev/null; then
    echo 'The licences of the libraries in the binary are not here: run "swift package resolve" first.' >&2
    exit 1
fi
cat <<'TEXT'
Stalecast

The repository names no licence for its own code: only its authors may
distribute it until it does. The binary holds code of the Swift standard
library and Foundation (Apache License 2.0 with Runtime Library Exception,
https://swift.org/LICENSE.txt; on Debian the Apache License is in
/usr/share/common-licenses/Apache-2.0), with ICU (Unicode License v3), and of
the packages below.
TEXT
for directory in .build/checkouts/*/; do
    for file in "$directory"LICENSE* "$directory"NOTICE*; do
        [[ -f $file ]] || continue
        printf '\n== %s: %s\n\n' "$(basename "$directory")" "$(basename "$file")"
        if grep -q 'Apache License' "$file" && grep -q 'END OF TERMS' "$file"; then
            echo 'Apache License 2.0: /usr/share/common-licenses/Apache-2.0'
            sed '1,/END OF TERMS/d' "$file" | sed -n '/Runtime Library Exception/,$p'
        else
            cat "$file"
        fi
    done
done
