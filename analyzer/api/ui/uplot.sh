#!/bin/sh
# Fetches uPlot by npm, checks it, and puts what the page needs of it into assets/uplot. To take another version, change these two
# lines: npm view uplot@VERSION dist.integrity says the second. Needs npm, tar and openssl.
set -eu
VERSION=1.6.32
INTEGRITY=sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==

cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
npm pack --silent --pack-destination "$scratch" "uplot@$VERSION" >/dev/null
got=sha512-$(openssl dgst -sha512 -binary "$scratch/uplot-$VERSION.tgz" | openssl base64 -A)
if [ "$got" != "$INTEGRITY" ]; then
  echo "uplot@$VERSION: got $got, want $INTEGRITY" >&2
  exit 1
fi
tar -xzf "$scratch/uplot-$VERSION.tgz" -C "$scratch"
mkdir -p assets/uplot
cp "$scratch/package/LICENSE" "$scratch/package/dist/uPlot.iife.min.js" "$scratch/package/dist/uPlot.min.css" assets/uplot/
(cd assets/uplot && sha256sum LICENSE uPlot.iife.min.js uPlot.min.css >SHA256SUMS)
echo "uplot@$VERSION: as its checksum says"
