// Package gitops computes the health of an object as GitOps tools do: Flux and kubectl by kstatus, Argo CD by a Lua script. The
// tests of the controllers hold their statuses to it.
package gitops

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Health is the health of an object: what kstatus says, and what Argo CD says with config/argocd/health.lua.
type Health struct{ Kstatus, Argo string }

// The health of an object in each state. Degraded has two: kstatus has no state for an object that serves and lacks something.
var (
	Creating       = Health{"InProgress", "Progressing"}
	Ready          = Health{"Current", "Healthy"}
	Degraded       = Health{"InProgress", "Degraded"}
	ServesDegraded = Health{"Current", "Degraded"}
	Blocked        = Health{"Failed", "Degraded"}
	Paused         = Health{"Current", "Suspended"}
	PausedNotReady = Health{"InProgress", "Suspended"}
	Deleting       = Health{"Terminating", "Progressing"}
)

// Check compares the health of obj.
func Check(t *testing.T, state string, obj client.Object, want Health) {
	t.Helper()
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	result, err := kstatus.Compute(&unstructured.Unstructured{Object: content})
	if err != nil {
		t.Fatal(err)
	}
	status, message := argo(t, content)
	if got := (Health{string(result.Status), status}); got != want || message == "" {
		t.Errorf("%s: %+v, want %+v; kstatus: %q, Argo CD: %q", state, got, want, result.Message, message)
	}
}

// argo runs the script with the libraries that Argo CD gives to a script that sets no useOpenLibs: base, table and package. Argo CD
// adds a reduced os library, which the script does not use.
func argo(t *testing.T, object map[string]any) (status, message string) {
	t.Helper()
	_, self, _, _ := runtime.Caller(0) //nolint:dogsled // only the file is of interest
	script, err := os.ReadFile(filepath.Join(filepath.Dir(self), "..", "..", "config", "argocd", "health.lua"))
	if err != nil {
		t.Fatal(err)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", valueOf(state, object))
	if err := state.DoString(string(script)); err != nil {
		t.Fatal(err)
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returned %s, want a table", state.Get(-1).Type())
	}
	return health.RawGetString("status").String(), health.RawGetString("message").String()
}

func valueOf(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		list := state.NewTable()
		for _, item := range v {
			list.Append(valueOf(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, valueOf(state, item))
		}
		return table
	}
	return lua.LNil
}
