// Uses the network and no TLS.
package main

import (
	"fmt"
	"net"
)

func main() {
	fmt.Println(net.Dial("tcp", "127.0.0.1:1"))
}
