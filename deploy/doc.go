// Package deploy holds what it takes to run floodgate: an image, a compose file to try it with, a systemd unit, alerts
// and rules to start from. It has no Go code but example servers and the tests, which run all of it as far as that goes
// without a container engine: they build the image's binaries with the Dockerfile's own commands, put them where it puts
// them, and start what the compose file starts, in a bare root directory and as the image's user.
package deploy
