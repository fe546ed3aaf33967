// Waits for a port on standard input, then sends a request over TLS and says how long the answer is.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
)

func main() {
	fmt.Println("ready")
	var port int
	if _, err := fmt.Scan(&port); err != nil {
		return
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		panic(err)
	}
	fmt.Fprint(conn, "GET /bytes/1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	answer, err := io.ReadAll(conn)
	fmt.Println(len(answer), err)
}
