# What the scripts here share: Debian packages, and the build; sourced, not run.
# shellcheck shell=bash disable=SC2034

# What building needs: headers of SQLite, libcurl and zlib.
build_packages=(libsqlite3-dev libcurl4-openssl-dev zlib1g-dev)

# install_missing PACKAGE…: installs those that are not there; asks apt nothing when all are.
install_missing() {
    local package missing=()
    if ! command -v dpkg-query >/dev/null; then
        echo "This is no Debian: make sure that you have the counterparts of $*." >&2
        return
    fi
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    local root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || {
            echo "Missing packages. As root, run: apt-get install ${missing[*]}" >&2
            exit 1
        }
        root=(sudo)
    fi
    echo "Installing ${missing[*]}" >&2
    local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends)
    "${apt[@]}" install "${missing[@]}" >/dev/null 2>&1 && return
    # The package lists may be missing or old.
    "${root[@]}" apt-get -qq update
    "${apt[@]}" install "${missing[@]}" >/dev/null
}

is_installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }

# install_command COMMAND PACKAGE [SERVICE]: installs a package unless its command is there; a service that comes
# with it is stopped, since only the command is wanted.
install_command() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null && return
    install_missing "$2" || return
    [[ -z ${3:-} ]] || stop_service "$3"
}

stop_service() {
    local root=()
    ((EUID == 0)) || root=(sudo)
    if [[ -d /run/systemd/system ]]; then
        "${root[@]}" systemctl disable --now "$1" >/dev/null 2>&1 || true
    else
        "${root[@]}" service "$1" stop >/dev/null 2>&1 || true
    fi
}

# release: the release that this source is, or becomes.
release() { sed -n 's/.*static let release = "\(.*\)"/\1/p' Sources/StalecastDaemon/Daemon.swift; }

# describe_build: what follows the release in the version, then the commit's whole name. "release" where the tag of the
# release is; before it the commit's number and short name ("git14.51b72f7"): numbers grow from commit to commit, so package
# managers see which of two builds is newer. $BUILD_NUMBER and $BUILD_REVISION say both where there is no git, else "dev".
# Fails behind the tag: such a build would be newer than the release and sort before it.
describe_build() {
    local commit build tags
    tags=(-xF -e "v$(release)" -e "$(release)")
    if ! commit=$(git rev-parse HEAD 2>/dev/null); then
        printf '%s %s\n' "${BUILD_NUMBER:-dev}" "${BUILD_REVISION:-}"
        return
    fi
    build=git$(git rev-list --count HEAD).${commit:0:7}
    if git tag --points-at HEAD | grep "${tags[@]}" >/dev/null; then
        [[ -n $(git status --porcelain) ]] && build+=.changed || build=release
    elif git tag --merged HEAD | grep "${tags[@]}" >/dev/null; then
        echo "$(release) is released: raise it in Sources/StalecastDaemon/Daemon.swift." >&2
        return 1
    elif [[ -n $(git status --porcelain) ]]; then
        build+=.changed
    fi
    printf '%s %s\n' "$build" "$commit"
}

# semantic VERSION: the same version as charts and images spell it. They have no "~", and compare what stands between dots:
# 0.3.0~git14.51b72f7 is 0.3.0-git.14.g51b72f7.
semantic() { sed -e 's/~git\([0-9]*\)\./-git.\1.g/' -e 's/~/-/' <<<"$1"; }

# Ends with a sentence when there is no Swift.
require_swift() {
    command -v swift >/dev/null && return
    echo "No Swift toolchain in PATH. Stalecast needs Swift 6.1 or newer: https://www.swift.org/install/linux/" >&2
    exit 1
}

# build_swift OPTION…: `swift build`, with sentences for the person who waits.
build_swift() {
    local log=.build/build.log
    mkdir -p .build
    if [[ ! -d .build/checkouts ]]; then
        echo "The first build fetches the packages and compiles some hundred files: 5 to 20 minutes on $(nproc)" \
            "processors; later ones take seconds." >&2
    fi
    if swift build "$@" 2>&1 | tee "$log" | show_steps; then
        return
    fi
    # Precompiled modules know where they were made.
    if grep -q 'was compiled with module cache path\|PCH was compiled' "$log"; then
        echo "This checkout was moved or copied after it was built: remove .build and run this again." >&2
    fi
    return 1
}

# Turns a build's steps into one line that counts (without a terminal: a line each half minute); passes on the rest.
show_steps() {
    local line seconds next=0 start=$SECONDS
    while IFS= read -r line; do
        seconds=$((SECONDS - start))
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            line="building: step ${BASH_REMATCH[1]} of ${BASH_REMATCH[2]}, $((seconds / 60)) min $((seconds % 60)) s"
            if [[ -t 2 ]]; then
                printf '\r\033[K%s' "$line" >&2
            elif ((seconds >= next)); then
                echo "$line" >&2
                next=$((seconds + 30))
            fi
        # Warnings about other people's packages are theirs.
        elif [[ -n $line && ! $line =~ ^warning:\ \'swift-|/checkouts/ ]]; then
            [[ ! -t 2 ]] || printf '\r\033[K' >&2
            echo "$line"
        fi
    done
}
