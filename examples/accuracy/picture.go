package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slidegate/slidegate/core"
)

// The picture shows a fixed window and slidegate's exact log under the same
// offers: a burst late in one window, a burst early in the next, and a third
// try a window later.

const (
	pictureN = 100
	pictureW = core.Instant(1_000_000)
	buckets  = 150 // bars over three windows
)

// pictureStart is an edge of the fixed window.
const pictureStart = start / pictureW * pictureW

func pictureOffers() (offers []offer) {
	spread := func(requests int, from, to core.Instant) {
		for i := range requests {
			at := from + (to-from)*core.Instant(i)/core.Instant(requests)
			offers = append(offers, offer{clock: pictureStart + at, cost: 1})
		}
	}
	spread(100, 780_000, 980_000)
	spread(100, 1_020_000, 1_220_000)
	spread(130, 1_740_000, 2_260_000)
	return offers
}

// panel is what one limiter made of the offers.
type panel struct {
	admitted, refused [buckets]int
	perWindow         [3]int
	// inBracket counts what was admitted in the window that ends half a window
	// after the edge.
	inBracket int
	// firstRefusal and its fits tell when the first refused request may come back.
	firstRefusal, fits core.Instant
}

func playPanel(s subject) (p panel, err error) {
	for _, o := range pictureOffers() {
		a, err := s.answer(o)
		if err != nil {
			return p, err
		}
		at := o.clock - pictureStart
		b := at * buckets / (3 * pictureW)
		if !a.admitted {
			p.refused[b]++
			if p.firstRefusal == 0 {
				p.firstRefusal, p.fits = at, a.fits-pictureStart
			}
			continue
		}
		p.admitted[b]++
		p.perWindow[at/pictureW]++
		if at > pictureW/2 && at <= pictureW*3/2 {
			p.inBracket++
		}
	}
	return p, nil
}

// drawTo writes the picture to a file.
func drawTo(file string) error {
	svg, err := picture()
	if err != nil {
		return err
	}
	return os.WriteFile(file, svg, 0o644)
}

// picture returns the SVG, always the same bytes.
func picture() (svg []byte, err error) {
	fixed, err := playPanel(fixedWindow(pictureN, pictureW))
	if err != nil {
		return nil, err
	}
	g, err := newGate(openMemory, core.Per(pictureN, time.Duration(pictureW)*time.Microsecond))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	exact, err := playPanel(g)
	if err != nil {
		return nil, err
	}
	return drawPicture(fixed, exact), nil
}

// Places on the canvas.
const (
	canvasWidth, canvasHeight = 880, 560
	plotLeft, plotWidth       = 50, 780
	perRequest                = 8 // pixels of a bar
)

// canvas collects SVG elements.
type canvas struct{ bytes.Buffer }

func (c *canvas) put(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

// x returns where an instant is drawn.
func x(at core.Instant) float64 {
	return plotLeft + plotWidth*float64(at)/float64(3*pictureW)
}

func drawPicture(fixed, exact panel) []byte {
	c := new(canvas)
	c.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="14" fill="#1f2328" role="img" aria-labelledby="title desc">`,
		canvasWidth, canvasHeight, canvasWidth, canvasHeight)
	c.put(`<title id="title">The burst at the edge of a fixed window</title>`)
	c.put(`<desc id="desc">The same requests under a limit of N = %d per window. The fixed window admits %d within one window's length, slidegate's exact log %d.</desc>`,
		pictureN, fixed.inBracket, exact.inBracket)
	// A background of its own, so that it can be read on a dark page.
	c.put(`<rect x="0.5" y="0.5" width="%d" height="%d" rx="6" fill="#ffffff" stroke="#d0d7de"/>`, canvasWidth-1, canvasHeight-1)
	c.legend(28)

	const fixedBase, exactBase = 250, 490
	c.put(`<text x="%d" y="%d" font-size="16" font-weight="bold">Fixed window, N = %d</text>`, plotLeft, fixedBase-178, pictureN)
	c.bracket(fixedBase, fixed.inBracket, "#b42318", "#fdf0ee")
	c.edges(fixedBase, fixed)
	c.bars(fixedBase, fixed)
	c.axis(fixedBase)

	c.put(`<text x="%d" y="%d" font-size="16" font-weight="bold">slidegate, exact, N = %d: the same requests</text>`, plotLeft, exactBase-178, pictureN)
	c.bracket(exactBase, exact.inBracket, "#1a7f37", "#ecf7ee")
	c.bars(exactBase, exact)
	c.comeBack(exactBase, exact)
	c.axis(exactBase)
	c.put(`<text x="%d" y="%d" text-anchor="middle">time</text>`, plotLeft+plotWidth/2, exactBase+46)
	c.put(`</svg>`)
	return c.Bytes()
}

func (c *canvas) legend(y int) {
	c.put(`<rect x="%d" y="%d" width="14" height="14" fill="#0a5cc2"/><text x="%d" y="%d">admitted</text>`, plotLeft, y-12, plotLeft+20, y)
	c.put(`<rect x="%d.5" y="%d.5" width="13" height="13" fill="#fff1e5" stroke="#e0823d"/><text x="%d" y="%d">refused</text>`, plotLeft+110, y-12, plotLeft+130, y)
	c.put(`<text x="%d" y="%d" text-anchor="end" fill="#59636e">one bar: requests in W/50</text>`, plotLeft+plotWidth, y)
}

func (c *canvas) bars(base int, p panel) {
	const width = plotWidth / float64(buckets)
	for i := range buckets {
		left := plotLeft + width*float64(i)
		up := perRequest * p.admitted[i]
		if up > 0 {
			c.put(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#0a5cc2"/>`, left+0.6, base-up, width-1.2, up)
		}
		if more := perRequest * p.refused[i]; more > 0 {
			c.put(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#fff1e5" stroke="#e0823d"/>`, left+1.1, base-up-more, width-2.2, more)
		}
	}
}

// edges marks where the fixed window starts anew, and what each one admitted.
func (c *canvas) edges(base int, p panel) {
	line := func(edge float64, from, to int) {
		c.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#59636e" stroke-dasharray="5 4"/>`, edge, base-from, edge, base-to)
	}
	for i, units := range p.perWindow {
		edge := x(core.Instant(i) * pictureW)
		c.put(`<text x="%.1f" y="%d" fill="#59636e" font-size="13">window %d: %d of %d</text>`, edge+8, base-148, i+1, units, pictureN)
		switch i {
		case 1: // with a gap for the text of the bracket
			line(edge, 160, 122)
			line(edge, 96, 0)
		case 2:
			line(edge, 160, 0)
		}
	}
}

// bracket spans a window's length around the first edge.
func (c *canvas) bracket(base, units int, colour, shade string) {
	left, right := x(pictureW/2), x(pictureW*3/2)
	c.put(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`, left, base-128, right-left, 128, shade)
	c.put(`<path d="M %.1f %d v -10 H %.1f v 10" fill="none" stroke="%s" stroke-width="2"/>`, left, base-118, right, colour)
	c.put(`<text x="%.1f" y="%d" text-anchor="middle" font-weight="bold" fill="%s">%d admitted within one W</text>`, (left+right)/2, base-104, colour, units)
}

// comeBack shows when the first refused request was told to come back.
func (c *canvas) comeBack(base int, p panel) {
	at := x(p.fits)
	c.put(`<path d="M %.1f %d V %d m -4 -8 l 4 8 l 4 -8" fill="none" stroke="#1a7f37" stroke-width="1.5"/>`, at, base-78, base-46)
	c.put(`<text x="%.1f" y="%d" fill="#1a7f37" font-size="13">the refused were told to come back here:</text>`, at-6, base-102)
	c.put(`<text x="%.1f" y="%d" fill="#1a7f37" font-size="13">the first unit leaves, W after it came</text>`, at-6, base-85)
}

func (c *canvas) axis(base int) {
	c.put(`<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#1f2328"/>`, plotLeft, base, plotLeft+plotWidth, base)
	for i, label := range []string{"0", "W", "2 W", "3 W"} {
		tick := x(core.Instant(i) * pictureW)
		c.put(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#1f2328"/><text x="%.1f" y="%d" text-anchor="middle" font-size="13">%s</text>`,
			tick, base, tick, base+5, tick, base+20, label)
	}
}
