package main

import "context"

func runReplay(_ context.Context, _ process, _ []string) error { return usagef("replay: not built in") }
