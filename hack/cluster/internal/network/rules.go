package network

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// ruleComment marks the iptables rules of the cluster.
const ruleComment = "fettle-cluster"

// rule is an iptables rule: table, chain and rule specification.
type rule struct {
	table, chain string
	spec         []string
}

// hostRules give nodes and pods access to other networks, even if the host's policy of FORWARD is DROP.
func hostRules() []rule {
	mark := []string{"-m", "comment", "--comment", ruleComment}
	return []rule{
		{"filter", "FORWARD", append([]string{"-i", Bridge}, append(mark, "-j", "ACCEPT")...)},
		{"filter", "FORWARD", append([]string{"-o", Bridge}, append(mark, "-j", "ACCEPT")...)},
		{"nat", "POSTROUTING", append([]string{"-s", NodeRange, "!", "-o", Bridge}, append(mark, "-j", "MASQUERADE")...)},
	}
}

// nodeRules masquerade traffic from pods to the node's address, except traffic to other pods.
func nodeRules() []rule {
	return []rule{{"nat", "POSTROUTING", []string{
		"-s", PodRange, "!", "-d", PodRange, "-m", "comment", "--comment", ruleComment, "-j", "MASQUERADE",
	}}}
}

func ensureRules(ctx context.Context, netns string, rules []rule) error {
	for _, r := range rules {
		iptables := func(operation string) error {
			args := append([]string{"-w", "5", "-t", r.table, operation, r.chain}, r.spec...)
			_, err := run(ctx, netns, "", "iptables", args...)
			return err
		}
		if iptables("-C") == nil {
			continue
		}
		if err := iptables("-I"); err != nil {
			return err
		}
	}
	return nil
}

// removeRules removes the rules of the cluster and of kube-proxy from the host.
func removeRules(ctx context.Context) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		saved, err := run(ctx, "", "", family+"-save")
		if err != nil {
			continue // not installed or not supported by the kernel, so there are no rules
		}
		if input := removalScript(saved); input != "" {
			if _, err := run(ctx, "", input, family+"-restore", "--noflush", "-w", "5"); err != nil {
				return fmt.Errorf("remove the cluster's %s rules: %w", family, err)
			}
		}
	}
	return nil
}

// removalScript takes the output of iptables-save and returns input for iptables-restore --noflush. It removes kube-proxy's
// chains (KUBE-*), all rules that jump to them, and the cluster's rules, and keeps all other rules. It returns an empty string
// if there is nothing to remove.
func removalScript(saved string) string {
	var out strings.Builder
	var table string
	var deletes, flushes, drops []string
	for scanner := bufio.NewScanner(strings.NewReader(saved)); scanner.Scan(); {
		line := scanner.Text()
		switch {
		case strings.HasPrefix(line, "*"):
			table, deletes, flushes, drops = line, nil, nil, nil
		case strings.HasPrefix(line, ":KUBE-"):
			chain, _, _ := strings.Cut(line[1:], " ")
			flushes, drops = append(flushes, "-F "+chain), append(drops, "-X "+chain)
		case strings.HasPrefix(line, "-A ") && !strings.HasPrefix(line, "-A KUBE-") && isClusterRule(line):
			deletes = append(deletes, "-D"+strings.TrimPrefix(line, "-A"))
		case line == "COMMIT" && len(deletes)+len(flushes) > 0:
			fmt.Fprintln(&out, table)
			for _, l := range append(append(deletes, flushes...), drops...) {
				fmt.Fprintln(&out, l)
			}
			fmt.Fprintln(&out, "COMMIT")
		}
	}
	return out.String()
}

func isClusterRule(line string) bool {
	return strings.Contains(line, "-j KUBE-") || strings.Contains(line, "--comment "+ruleComment)
}
