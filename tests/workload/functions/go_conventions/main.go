// Functions with all kinds of arguments and results. For each call it prints the line that a trace
// of it should have, in the order of the returns.
package main

import "fmt"

type point struct{ x, y int32 }
type big struct{ a, b, c, d, e, f, g, h, i, j int64 }
type mixed struct {
	flag bool
	more uint16
	last int64
}

//go:noinline
func traceme(a int, b int) int { return a + b }

//go:noinline
func swap(a, b int64) (first, second int64) { return b, a }

//go:noinline
func small(a int8, b bool, c uint16) (uint8, bool) { return uint8(a) + uint8(c), !b }

//go:noinline
func (p point) move(by int32) point { return point{p.x + by, p.y - by} }

//go:noinline
func mix(n int64) mixed { return mixed{n == 4, uint16(n), -n} }

//go:noinline
func bigger(n int64) big { return big{a: n, j: n + 9} }

//go:noinline
func many(a, b, c, d, e, f, g, h, i, j, k int) int {
	return a + b + c + d + e + f + g + h + i + j + k
}

//go:noinline
func manyResults(a int) (b, c, d, e, f, g, h, i, j, k int) {
	return a, a + 1, a + 2, a + 3, a + 4, a + 5, a + 6, a + 7, a + 8, a + 9
}

//go:noinline
func array(n int32) [2]int32 { return [2]int32{n, n + 1} }

//go:noinline
func one(n int32) [1]int32 { return [1]int32{n} }

//go:noinline
func deep(n int) int {
	var room [200]int
	if n == 0 {
		return room[n]
	}
	room[n] = n
	return deep(n-1) + room[n]
}

// Its first instruction is its return where arguments are in registers.
//
//go:noinline
func same(n int) int { return n }

//go:noinline
func empty() {}

//go:noinline
func complexes(a *complex128, b []complex64) *complex128 { return a }

//go:noinline
func caller(n int) int {
	empty()
	return same(n) + same(n+1)
}

//go:noinline
func nothing(n int) { fmt.Printf("nothing(n=%d)\n", n) }

func main() {
	fmt.Printf("traceme(a=1, b=2) = %d\n", traceme(1, 2))
	a, b := swap(-1, 2)
	fmt.Printf("swap(a=-1, b=2) = first=%d, second=%d\n", a, b)
	c, d := small(-1, true, 7)
	fmt.Printf("small(a=-1, b=true, c=7) = r0=%d, r1=%t\n", c, d)
	p := point{1, 2}.move(3)
	fmt.Printf("move(p={x=1, y=2}, by=3) = {x=%d, y=%d}\n", p.x, p.y)
	m := mix(4)
	fmt.Printf("mix(n=4) = {flag=%t, more=%d, last=%d}\n", m.flag, m.more, m.last)
	g := bigger(4)
	fmt.Printf("bigger(n=4) = {a=%d, b=0, c=0, d=0, e=0, f=0, g=0, h=0, i=0, j=%d}\n", g.a, g.j)
	fmt.Printf("many(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9, j=10, k=11) = %d\n",
		many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
	f, _, _, _, _, _, _, _, _, l := manyResults(1)
	fmt.Printf("manyResults(a=1) = b=%d, c=2, d=3, e=4, f=5, g=6, h=7, i=8, j=9, k=%d\n", f, l)
	r := array(5)
	fmt.Printf("array(n=5) = [%d, %d]\n", r[0], r[1])
	s := one(5)
	fmt.Printf("one(n=5) = [%d]\n", s[0])
	results := make(chan int)
	go func() { results <- deep(60) }()
	<-results
	total := 0
	for n := 0; n <= 60; n++ {
		total += n
		fmt.Printf("deep(n=%d) = %d\n", n, total)
	}
	nothing(8)
	z := complex(1.5, -2)
	complexes(&z, []complex64{2i})
	fmt.Println("complexes(a=&{real=1.5, imag=-2.0}, b=[{real=0.0, imag=2.0}]) = &{real=1.5, imag=-2.0}")
	sum := caller(3)
	fmt.Println("empty()")
	fmt.Println("same(n=3) = 3")
	fmt.Println("same(n=4) = 4")
	fmt.Printf("caller(n=3) = %d\n", sum)
}
