// Generic functions. For each call it prints what follows the name in the line that a trace of it
// should have.
package main

import "fmt"

type point struct {
	x    int
	name string
}

type pair[K comparable, V any] struct {
	key   K
	value V
}

var kept any

//go:noinline
func first[T any](a T, b []T) T {
	kept = []any{a, b}
	return b[0]
}

//go:noinline
func (p pair[K, V]) swap(n int) (V, K) {
	kept = n
	return p.value, p.key
}

//go:noinline
func (p *pair[K, V]) set(value V) V {
	old := p.value
	p.value = value
	return old
}

func main() {
	fmt.Printf("(a=5, b=[6, 7]) = %d\n", first(5, []int{6, 7}))
	fmt.Printf("(a=\"s\", b=[\"t\", \"u\"]) = %q\n", first("s", []string{"t", "u"}))
	p := first(point{1, "p"}, []point{{2, "q"}})
	fmt.Printf("(a={x=1, name=\"p\"}, b=[{x=2, name=\"q\"}]) = {x=%d, name=%q}\n", p.x, p.name)
	both := pair[string, int]{"k", 3}
	value, key := both.swap(4)
	fmt.Printf("(p={key=\"k\", value=3}, n=4) = r0=%d, r1=%q\n", value, key)
	fmt.Printf("(p=&{key=\"k\", value=3}, value=8) = %d\n", both.set(8))
}
