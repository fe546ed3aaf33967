// Functions whose arguments are of Go's types; tests/unit/functions/values has their values.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

type point struct {
	X    int
	Y    uint8
	name string
}

type shape interface{ area() float64 }

func (p *point) area() float64 { return 1 }

type color int

type failure struct{ code int }

func (failure) Error() string { return "mine" }

var kept any

//go:noinline
func texts(a string, b string, c []byte) { kept = []any{a, b, c} }

//go:noinline
func slices(a []int, b []string, c []point, d []int) { kept = []any{a, b, c, d} }

//go:noinline
func pointers(a *point, b *point, c *int, d **point, e func(int) int, f chan int, g map[string]int, h map[int]int) {
	kept = []any{a, b, c, d, e, f, g, h}
}

//go:noinline
func structures(a point, b [2]string, c bool, d rune, e color, f struct{}) {
	kept = []any{a, b, c, d, e, f}
}

//go:noinline
func interfaces(a any, b any, c any, d shape) { kept = []any{a, b, c, d} }

//go:noinline
func more(a any, b shape, c any, d any) { kept = []any{a, b, c, d} }

//go:noinline
func failures(a error, b error, c error, d error) { kept = []any{a, b, c, d} }

type callback func(int) int
type counts map[string]int
type queue chan bool
type named struct {
	*point
	at [2][2]int8
}

//go:noinline
func kinds(a callback, b *callback, c counts, d queue, e chan<- bool, f named, g map[point]counts, h []func()) {
	kept = []any{a, b, c, d, e, f, g, h}
}

//go:noinline
func numbers(a *complex64, b []complex128, c any, d float32, e complex128, f [1]float64) {
	kept = []any{a, b, c, d, e, f}
}

//go:noinline
func generic[T any](a T, b []T) { kept = []any{a, b} }

func main() {
	p, n := &point{1, 2, "pt"}, 5
	long := make([]byte, 600)
	for i := range long {
		long[i] = 'x'
	}
	c := make(chan int, 4)
	c <- 1
	texts("hält", string(long), []byte("by"))
	slices([]int{1, -2}, []string{"x", "yy"}, []point{*p}, make([]int, 100))
	pointers(p, nil, &n, &p, func(i int) int { return i + n }, c, map[string]int{"a": 1, "b": 2}, nil)
	structures(*p, [2]string{"q", "r"}, true, 'x', 3, struct{}{})
	interfaces(n, "text", nil, p)
	more(1.5, nil, color(7), *p)
	failures(errors.New("boom"), fmt.Errorf("wrapped: %w", io.EOF), nil, failure{3})
	q, small := make(queue, 2), complex64(0.5i)
	q <- true
	f := callback(func(i int) int { return n - i })
	kinds(f, &f, counts{"x": 1}, q, q, named{p, [2][2]int8{{1, 2}, {3, -4}}}, nil, make([]func(), 1))
	numbers(&small, []complex128{1, 2i}, complex(3, -4), 1.5, 2.5i, [1]float64{3})
	generic("a", []string{"b"})
	generic(n, []int{6})
	fmt.Fprintln(os.Stderr, kept != nil)
}
