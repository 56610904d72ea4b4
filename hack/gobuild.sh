#!/usr/bin/env bash
# Build one static Go binary and tell how far the build is; print nothing where there is nothing to compile.
# Usage: gobuild.sh [-C module] -o file [-ldflags flags] package
set -euo pipefail

module=. output='' ldflags=''
read -r -a flags <<<"${GOBUILD_FLAGS-}"
while [[ ${1-} == -* ]]; do
  case $1 in
  -C) module=$2 ;;
  -o) output=$2 ;;
  -ldflags) ldflags=$2 ;;
  *) echo "gobuild.sh: unknown flag $1" >&2 && exit 2 ;;
  esac
  shift 2
done
package=$1
mkdir -p "$(dirname "$output")"
target=$PWD/$output

# The output of go build -v is one line per package (and per download), among which are the errors; count the first and
# pass on the second.
progress() {
  local compiled=0 fetched=0 total='' start=$SECONDS shown=$SECONDS part='' line status
  while true; do
    status=0
    IFS= read -r -t 1 line || status=$?
    line=$part$line part=
    if ((status == 0)); then
      case $line in
      "go: downloading "*) fetched=$((fetched + 1)) ;;
      "" | *[[:space:]:]*) printf '%s\n' "$line" >&2 ;;
      *) compiled=$((compiled + 1)) ;;
      esac
    elif ((status < 128)); then
      break
    else
      # The second is over in the middle of a line, or before it.
      part=$line
    fi
    if ((SECONDS - shown >= 10)); then
      shown=$SECONDS
      if [[ -z $total ]] && ((compiled > 0)); then
        total=$(go -C "$module" list -deps "$package" 2>/dev/null | wc -l) || total=0
      fi
      if ((compiled == 0)); then
        echo "  $output: $((SECONDS - start)) s, $fetched modules downloaded"
      else
        echo "  $output: $((SECONDS - start)) s, $compiled packages compiled, of at most $((total))"
      fi
    fi
  done
  if ((SECONDS - start >= 10)); then
    echo "  $output: built in $((SECONDS - start)) s"
  fi
}

go -C "$module" build -v "${flags[@]}" -ldflags "$ldflags" -o "$target" "$package" 2>&1 | progress
