package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the command lines in testdata/script as a user would type them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv(beMain, "1")
			e.Setenv("FLOODGATE", os.Args[0])
			api := startAPI()
			e.Defer(api.Close)
			e.Setenv("API", api.URL)
			return nil
		},
	})
}
