// A client that says hello as a browser does, by uTLS: `utls PORT`. It asks once, and prints what the server answers first.
package main

import (
	"bufio"
	"fmt"
	"log"
	"net"
	"os"

	tls "github.com/refraction-networking/utls"
)

func main() {
	plain, err := net.Dial("tcp", "localhost:"+os.Args[1])
	check(err)
	config := tls.Config{ServerName: "localhost", InsecureSkipVerify: true}
	connection := tls.UClient(plain, &config, tls.HelloFirefox_Auto)
	check(connection.BuildHandshakeState())
	for _, extension := range connection.Extensions {
		if alpn, is := extension.(*tls.ALPNExtension); is {
			alpn.AlpnProtocols = []string{"http/1.1"}
		}
	}
	_, err = fmt.Fprint(connection, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	check(err)
	line, err := bufio.NewReader(connection).ReadString('\n')
	check(err)
	fmt.Print(line)
	check(connection.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
