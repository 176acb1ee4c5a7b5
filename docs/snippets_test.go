// Package docs_test compiles the Go snippets of the README and of the pages in
// this folder, so that nobody copies code that does not build.
package docs_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// imports are what a snippet may use without saying so.
var imports = map[string]string{
	"context": "context", "fmt": "fmt", "http": "net/http", "httptest": "net/http/httptest", "log": "log",
	"netip": "net/netip", "slog": "log/slog", "testing": "testing", "time": "time",
	"core": module + "/core", "keyfunc": module + "/keyfunc", "nethttp": module + "/nethttp",
	"chimw":      module + "/chimw",
	"ginmw":      module + "/ginmw",
	"echomw":     module + "/echomw",
	"fallback":   module + "/core/fallback",
	"limittest":  module + "/core/limittest",
	"redisstore": module + "/core/redisstore",
	"storetest":  module + "/core/storetest",
	"gin":        "github.com/gin-gonic/gin",
	"chi":        "github.com/go-chi/chi/v5",
	"echo":       "github.com/labstack/echo/v4",
}

const module = "github.com/slidegate/slidegate"

// given is what snippets take for granted.
const given = `
var (
	mux   *http.ServeMux
	login http.Handler
	ctx   context.Context
	lim   *core.Limiter
	addr  netip.Addr
	t     testing.TB
	work  func() int64
)
`

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

func TestSnippetsCompile(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, filepath.Join("..", "README.md"))
	overlay := map[string]string{}
	var packages []string
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, match := range fence.FindAllStringSubmatch(string(text), -1) {
			name := fmt.Sprintf("%s%d", strings.ToLower(strings.TrimSuffix(filepath.Base(page), ".md")), i+1)
			source, err := program(match[1])
			if err != nil {
				t.Errorf("%s, snippet %d: %v\n%s", page, i+1, err, match[1])
				continue
			}
			file := filepath.Join(t.TempDir(), name+".go")
			if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay[filepath.Join(root, "docs", "snippet", name, "main.go")] = file
			packages = append(packages, "./docs/snippet/"+name)
		}
	}
	if len(packages) < 8 {
		t.Fatalf("found only %d snippets: is the pattern still right?", len(packages))
	}
	if out, err := compile(t, root, overlay, packages...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestASnippetThatDoesNotCompileIsFound(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := program("lim := core.Must(core.New(core.Config{Nmae: \"typo\"}))\n")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bad.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay := map[string]string{filepath.Join(root, "docs", "snippet", "bad", "main.go"): file}
	if out, err := compile(t, root, overlay, "./docs/snippet/bad"); err == nil || !strings.Contains(out, "Nmae") {
		t.Errorf("it was built: %v\n%s", err, out)
	}
}

// compile builds packages that exist only in the overlay.
func compile(t *testing.T, root string, overlay map[string]string, packages ...string) (string, error) {
	t.Helper()
	data, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay", file, "-o", os.DevNull}, packages...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// program makes a snippet compile on its own: a file as it is, declarations and
// statements inside a package.
func program(snippet string) (string, error) {
	if strings.HasPrefix(snippet, "package ") {
		return snippet, nil
	}
	body := "func snippet() {\n" + snippet + "\n" + uses(snippet) + "}\n"
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+snippet, 0); err == nil {
		body = snippet
	}
	source := given + body + "\nfunc main() {}\n"
	var header strings.Builder
	header.WriteString("package main\n\nimport (\n")
	names := make([]string, 0, len(imports))
	for name := range imports {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(source) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&header, "\t%q\n", imports[name])
	}
	header.WriteString(")\n")
	source = header.String() + source
	_, err := parser.ParseFile(token.NewFileSet(), "", source, 0)
	return source, err
}

// uses returns statements that use what the snippet declares and leaves alone.
func uses(snippet string) string {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+snippet+"\n}", 0)
	if err != nil || len(file.Decls) != 1 {
		return ""
	}
	var b strings.Builder
	for _, statement := range file.Decls[0].(*ast.FuncDecl).Body.List {
		assign, ok := statement.(*ast.AssignStmt)
		if !ok || assign.Tok != token.DEFINE {
			continue
		}
		for _, left := range assign.Lhs {
			if name, ok := left.(*ast.Ident); ok && name.Name != "_" {
				fmt.Fprintf(&b, "_ = %s\n", name.Name)
			}
		}
	}
	return b.String()
}
