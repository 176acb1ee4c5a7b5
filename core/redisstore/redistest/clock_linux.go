package redistest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

//go:embed testdata/clockshim.c
var clockShim []byte

// offsetSize is that of the number in the file of a clock.
const offsetSize = 8

// newClock makes a clock in directory, and the command that lets a program run
// by it.
func newClock(directory string) (*Clock, []string, error) {
	library, err := compile(directory)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(directory, "clock")
	memory, err := share(path)
	if err != nil {
		return nil, nil, fmt.Errorf("slidegate: memory of the clock: %w", err)
	}
	c := &Clock{offset: (*int64)(unsafe.Pointer(&memory[0]))}
	runtime.AddCleanup(c, func(memory []byte) { _ = syscall.Munmap(memory) }, memory)
	return c, []string{"/usr/bin/env", "LD_PRELOAD=" + library, "REDISTEST_CLOCK=" + path}, nil
}

// compile makes a library of the shim.
func compile(directory string) (string, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	source, library := filepath.Join(directory, "clockshim.c"), filepath.Join(directory, "clockshim.so")
	if err := os.WriteFile(source, clockShim, 0o600); err != nil {
		return "", fmt.Errorf("slidegate: source of the clock: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	said, err := exec.CommandContext(ctx, cc, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("slidegate: compile the clock: %w: %s", err, said)
	}
	return library, nil
}

// share maps a new file. Both sides read and write the number in it in one piece,
// which a write to the file does not promise.
func share(path string) (memory []byte, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(offsetSize); err != nil {
		return nil, err
	}
	return syscall.Mmap(int(file.Fd()), 0, offsetSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}
