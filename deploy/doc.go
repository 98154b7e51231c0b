// Package deploy contains the files that run floodgate: an image, compose files to try it with, systemd units, packages,
// alerts and rules to start from. Its only Go code is example servers and tests. The tests run as much of it as they can without a
// container engine: they build the image's binaries with the Dockerfile's own commands, put them where the Dockerfile puts
// them, and start what the compose file starts, in a bare root directory and as the image's user.
//
// Tests of the repository's documents are here too: they check that README.md, and the pages that it links to, are true.
package deploy
