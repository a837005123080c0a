// Command rules checks a rules file and expressions with Prometheus' own code, and tells which series they select.
//
// It reads the rules file that its argument names and, from standard input, a JSON list of expressions. It writes the
// selections of each alert and of each expression as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// A selection is a metric and the labels that an expression names for it.
type selection struct {
	Metric string   `json:"metric"`
	Labels []string `json:"labels"`
}

type report struct {
	Rules       map[string][]selection `json:"rules"`
	Expressions [][]selection          `json:"expressions"`
}

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	if len(os.Args) != 2 {
		return errors.New("usage: rules FILE < expressions.json")
	}
	promql := parser.NewParser(parser.Options{})
	groups, errs := rulefmt.ParseFile(os.Args[1], false, model.UTF8Validation, promql, log)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	var expressions []string
	if err := json.NewDecoder(os.Stdin).Decode(&expressions); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	found := report{Rules: map[string][]selection{}, Expressions: [][]selection{}}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			selected, err := selections(promql, rule.Expr)
			if err != nil {
				return err
			}
			found.Rules[rule.Alert] = selected
		}
	}
	for _, expression := range expressions {
		selected, err := selections(promql, expression)
		if err != nil {
			return err
		}
		found.Expressions = append(found.Expressions, selected)
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

// selections lists the selectors of an expression, each with the labels that are matched on there, or grouped by or
// joined on around it.
func selections(promql parser.Parser, expression string) ([]selection, error) {
	parsed, err := promql.ParseExpr(expression)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	found := []selection{}
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		entry := selection{Metric: selector.Name, Labels: []string{}}
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name != labels.MetricName {
				entry.Labels = append(entry.Labels, matcher.Name)
			}
		}
		for _, around := range path {
			switch around := around.(type) {
			case *parser.AggregateExpr:
				entry.Labels = append(entry.Labels, around.Grouping...)
			case *parser.BinaryExpr:
				if around.VectorMatching != nil {
					entry.Labels = append(entry.Labels, around.VectorMatching.MatchingLabels...)
				}
			}
		}
		found = append(found, entry)
		return nil
	})
	return found, nil
}
