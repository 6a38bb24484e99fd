# Shared by the scripts behind ./dev. Sourced with the repository root as working directory.

# say_bold DESCRIPTOR TEXT: a line, bold where the descriptor is a terminal.
say_bold() {
    if [ -t "$1" ]; then printf '\033[1m%s\033[0m\n' "$2" >&"$1"; else printf '%s\n' "$2" >&"$1"; fi
}
say() { say_bold 2 "== $*"; }
die() {
    printf 'dev: %s\n' "$*" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        die "need root for: $*"
    fi
}

# apt_install PACKAGE...: install those that are missing; refresh the lists once an hour at most.
apt_install() {
    local missing=() p
    for p in "$@"; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "apt: ${missing[*]}"
    apt_refresh
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >&2
}

apt_refresh() {
    local stamp=/var/lib/apt/lists/.gpuslice-refreshed
    [ -n "$(find "$stamp" -mmin -60 2>/dev/null)" ] && return 0
    as_root apt-get update >&2
    as_root touch "$stamp"
}

# The Debian archive this machine already installs from, or $GS_DEBIAN_MIRROR (on Ubuntu there is none else).
debian_mirror() {
    local uri="${GS_DEBIAN_MIRROR:-}"
    [ -n "$uri" ] || uri="$(own_debian_archive)"
    if [ -z "$uri" ]; then # the lists may never have been fetched
        apt_refresh
        uri="$(own_debian_archive)"
    fi
    [ -n "$uri" ] || die "this machine has no Debian archive; name one in GS_DEBIAN_MIRROR"
    printf '%s\n' "$uri"
}

own_debian_archive() {
    apt-get indextargets --format '$(REPO_URI)' | sort -u | sed -n '\|/debian/\{0,1\}$|{p;q}'
}

# debian_get SUITE PACKAGE...: download packages of another Debian suite into .cache/deb/SUITE and print
# their paths. Uses an apt root of its own: the machine's sources stay as they are.
debian_get() {
    local suite="$1" root="$PWD/.cache/apt/$1" out="$PWD/.cache/deb/$1" p deb
    shift
    mkdir -p "$out" "$root"/{etc/apt/{apt.conf.d,preferences.d},var/lib/{dpkg,apt/lists/partial},var/cache/apt/archives/partial}
    : >"$root/var/lib/dpkg/status"
    local key=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$key" ] || apt_install debian-archive-keyring
    local comps="main contrib non-free"
    [ "$suite" = bullseye ] || comps+=" non-free-firmware"
    local mirror
    mirror="$(debian_mirror)"
    echo "deb [signed-by=$key] $mirror $suite $comps" >"$root/etc/apt/sources.list"
    local opts=(-o "Dir=$root" -o "Dir::Etc=$root/etc/apt" -o "Dir::State=$root/var/lib/apt"
        -o "Dir::State::status=$root/var/lib/dpkg/status" -o "Dir::Cache=$root/var/cache/apt"
        -o APT::Sandbox::User=root)
    [ -n "$(find "$root/refreshed" -mmin -720 2>/dev/null)" ] || {
        apt-get "${opts[@]}" update >&2
        touch "$root/refreshed"
    }
    for p in "$@"; do
        deb="$(find "$out" -name "${p}_*.deb" | head -n 1)"
        if [ -z "$deb" ]; then
            (cd "$out" && apt-get "${opts[@]}" download "$p" >&2)
            deb="$(find "$out" -name "${p}_*.deb" | head -n 1)"
        fi
        [ -n "$deb" ] || die "no package $p in Debian $suite"
        printf '%s\n' "$deb"
    done
}

# debian_unpack SUITE PACKAGE DIR: unpack without installing, once.
debian_unpack() {
    [ -f "$3/.unpacked" ] && return 0
    local deb
    deb="$(debian_get "$1" "$2")"
    mkdir -p "$3"
    dpkg -x "$deb" "$3"
    touch "$3/.unpacked"
}

# venv_install REQUIREMENTS-FILE: pip install into .venv, once per content of the file.
venv_install() {
    local file="$1" mark
    mark=".venv/.done-$(sha256sum "$file" | cut -c1-16)"
    [ -f "$mark" ] && return 0
    [ -x .venv/bin/python ] || {
        python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
        python3 -m venv .venv
    }
    say "pip: $file"
    .venv/bin/python -m pip install -q --disable-pip-version-check -r "$file" >&2
    touch "$mark"
}
