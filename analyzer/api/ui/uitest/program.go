package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// buildProgram builds floodgate into a directory, and returns its path.
func buildProgram(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "floodgate")
	command := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/floodgate")
	command.Dir = filepath.Join("..", "..", "..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build floodgate: %w\n%s", err, bytes.TrimSpace(out))
	}
	return path, nil
}
