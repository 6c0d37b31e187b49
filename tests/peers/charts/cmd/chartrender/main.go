// chartrender [-set name=value | -set-json name=JSON]... RELEASE FOLDER renders a chart as `helm template` does: Helm's own
// loader, schema check and engine, and nothing of a cluster.
package main

import (
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"helm.sh/helm/v4/pkg/strvals"
)

func main() {
	values := map[string]any{}
	flag.Func("set", "name=value, as helm takes it", func(text string) error { return strvals.ParseInto(text, values) })
	flag.Func("set-json", "name=JSON", func(text string) error { return strvals.ParseJSON(text, values) })
	flag.Parse()
	if err := render(flag.Arg(0), flag.Arg(1), values); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func render(name, folder string, values map[string]any) error {
	chart, err := loader.Load(folder)
	if err != nil {
		return err
	}
	options := common.ReleaseOptions{Name: name, Namespace: "kube-system", Revision: 1, IsInstall: true}
	final, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, final)
	if err != nil {
		return err
	}
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	for _, path := range paths {
		if text := files[path]; strings.TrimSpace(text) != "" && !strings.HasSuffix(path, "NOTES.txt") {
			fmt.Printf("---\n# Source: %s\n%s\n", path, text)
		}
	}
	return nil
}
